"""The effective configuration: every value with where it comes from, and no secrets."""

import json
import os
from collections.abc import Iterator, Mapping
from datetime import timedelta
from pathlib import Path
from typing import NamedTuple

from msgspec.structs import fields

from envoy_supervisor import JSON
from istio_settings import ProxyConfig, Settings, SettingWithoutEffect
from mesh_agent.config._flags import Flags
from mesh_configfile import spell_duration

HIDDEN = "(hidden)"
DEFAULT = "default"
_RESULTS = "results"
SPELLINGS = {
    "domain": "--domain",
    "mesh_config": "--meshConfig",
    "service_cluster": "--serviceCluster",
    "proxy_log_level": "--proxyLogLevel",
    "proxy_component_log_level": "--proxyComponentLogLevel",
    "concurrency": "--concurrency",
    "template_file": "--templateFile",
    "outlier_log": "--outlierLogPath",
    "envoy_path": "--envoy-path",
    "log_levels": "--log_output_level",
    "log_as_json": "--log_as_json",
    "log_target": "--log_target",
    "log_caller": "--log_caller",
    "log_stacktrace_level": "--log_stacktrace_level",
    "log_rotate": "--log_rotate",
    "log_rotate_max_size": "--log_rotate_max_size",
    "log_rotate_max_age": "--log_rotate_max_age",
    "log_rotate_max_backups": "--log_rotate_max_backups",
    "sts_port": "--stsPort",
    "token_manager_plugin": "--tokenManagerPlugin",
    "exit_with": "--exit-with",
}
# ProxyConfig's fields that the agent has a default for, by their names in its own class.
_DEFAULTS = {
    "configPath": "config_path",
    "binaryPath": "binary_path",
    "serviceCluster": "service_cluster",
    "discoveryAddress": "discovery_address",
    "drainDuration": "drain_duration",
    "parentShutdownDuration": "parent_shutdown_duration",
    "terminationDrainDuration": "termination_drain_duration",
    "proxyAdminPort": "proxy_admin_port",
    "statusPort": "status_port",
    "fileFlushInterval": "file_flush_interval",
}
_SECRET_WORDS = ("TOKEN", "SECRET", "PASSW", "CREDENTIAL", "AUTHORIZATION", "APIKEY", "API_KEY")
_HEADERS = ("CA_HEADER_", "XDS_HEADER_")
_AGENTS_OWN = ("SECRET_TTL", "SECRET_GRACE_", "CREDENTIAL_", "TOKEN_AUDIENCES")


class Entry(NamedTuple):
    """A value, and where it comes from: `default`, `env`, a flag, a file and its line."""

    name: str
    value: JSON
    origin: str


class EffectiveConfig(NamedTuple):
    """The sections of the configuration, and the settings without effect.

    directory: the one that relative paths are in.
    """

    sections: Mapping[str, tuple[Entry, ...]]
    without_effect: tuple[SettingWithoutEffect, ...]
    directory: Path

    def as_json(self) -> dict[str, JSON]:
        """Return `{section: {name: {"value": ..., "from": ...}}, "without_effect": {...}}`.

        The section `process` has the working directory and the user's id without where they come
        from: with them another process of this machine can read the same files.
        """
        described: dict[str, JSON] = {
            section: {each.name: {"value": each.value, "from": each.origin} for each in entries}
            for section, entries in self.sections.items()
        }
        described["without_effect"] = {each.setting: each.reason for each in self.without_effect}
        described["process"] = {"directory": str(self.directory), "user": os.geteuid()}
        return described

    def as_text(self, *, defaults: bool = True) -> str:
        """Return YAML, with a comment behind each value that says where it comes from.

        defaults: whether values that were not set are shown; those of `results` always are.
        """
        lines = []
        for section, every in self.sections.items():
            shows_all = defaults or section == _RESULTS
            entries = [each for each in every if shows_all or each.origin != DEFAULT]
            if entries:
                lines.append(f"{section}:")
            lines += [
                f"  {_key(each.name)}: {_flow(each.value)}  # {each.origin}" for each in entries
            ]
        if self.without_effect:
            lines.append("without_effect:")
            lines += [
                f"  {_key(each.setting)}: {_flow(each.reason)}" for each in self.without_effect
            ]
        return "\n".join(lines)


def effective_config(
    settings: Settings,
    *,
    flags: Flags,
    proxy: ProxyConfig,
    results: Mapping[str, tuple[JSON, str]],
    without_effect: tuple[SettingWithoutEffect, ...],
    directory: Path,
) -> EffectiveConfig:
    """Return the configuration as it counts.

    results: values that several settings together make, and what they come from.
    """
    return EffectiveConfig(
        sections={
            "flags": tuple(_flags(flags)),
            "variables": tuple(_variables(settings)),
            "proxyConfig": tuple(_proxy_config(proxy)),
            _RESULTS: tuple(Entry(name, *entry) for name, entry in results.items()),
        },
        without_effect=without_effect,
        directory=directory,
    )


def _flags(flags: Flags) -> Iterator[Entry]:
    yield Entry("type", flags.role, DEFAULT if flags.role == "sidecar" else "argument")
    for each in fields(Flags):
        if (spelling := SPELLINGS.get(each.name)) is not None:
            value = getattr(flags, each.name)
            shown = ",".join(value) if isinstance(value, tuple) else value
            yield Entry(spelling, shown, DEFAULT if value == each.default else "flag")


def _variables(settings: Settings) -> Iterator[Entry]:
    names = set(settings.reads)
    names.update(name for name in settings.environ if name.startswith("ISTIO_META"))
    names.discard("PROXY_CONFIG")  # its fields are a section of their own
    for name in sorted(names):
        read = settings.reads.get(name)
        value: JSON = settings.environ[name] if read is None else _plain(read.value)
        # The agent's own settings are no secrets, whatever they are called.
        hide = name.startswith(_HEADERS) or (name.startswith("ISTIO_META") and _is_secret(name))
        yield Entry(name, HIDDEN if hide else _without_secrets(value), settings.origin(name))


def _proxy_config(proxy: ProxyConfig) -> Iterator[Entry]:
    for name in sorted(proxy.merged.keys() | _DEFAULTS.keys()):
        if (place := proxy.origins.get(name)) is not None:
            value = proxy.merged[name]
            yield Entry(name, _without_secrets(value), place.layer.known_place(place.path))
        else:
            yield Entry(name, _plain(getattr(proxy, _DEFAULTS[name])), DEFAULT)


def _plain(value: object) -> JSON:
    if isinstance(value, timedelta):
        return spell_duration(value)
    return value if isinstance(value, str | bool | int | float) else str(value)


def _without_secrets(value: JSON) -> JSON:
    if isinstance(value, Mapping):
        return {
            key: HIDDEN if _is_secret(key) and isinstance(inner, str) else _without_secrets(inner)
            for key, inner in value.items()
        }
    if isinstance(value, list):
        return [_without_secrets(inner) for inner in value]
    return value


def _is_secret(name: str) -> bool:
    if name.startswith(_AGENTS_OWN):
        return False
    return name.startswith(_HEADERS) or any(word in name.upper() for word in _SECRET_WORDS)


def _key(name: str) -> str:
    plain = name.replace("_", "").replace(".", "").isalnum() and name.isascii()
    return name if plain else json.dumps(name)


def _flow(value: JSON) -> str:
    """Return the value as YAML has it on one line: JSON, or text without quotes."""
    if (
        isinstance(value, str)
        and value[:1].isalpha()
        and not value.endswith(":")
        and not set(value) - _PLAIN
        and value.lower() not in _WORDS
    ):
        return value
    return json.dumps(value, ensure_ascii=False)


_PLAIN = frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789./:~_-")
# Texts that YAML would read as something else.
_WORDS = frozenset(("true", "false", "yes", "no", "on", "off", "y", "n", "null", "nan", "inf"))
