"""Bootstrap files of the user's own: a whole bootstrap, or an override laid over the agent's."""

import json
import re
from pathlib import Path

import msgspec

import envoy_supervisor
from istio_settings import (
    LayerError,
    ProxyConfig,
    Settings,
    read_mapping,
)

_MAX_FILE_BYTES = 64 << 20
_TEMPLATE_ACTION = re.compile(r"\{\{-?\s*(?:[.$/]|(?:if|else|end|range|with|toJSON)\b)")


class BootstrapFiles(msgspec.Struct, frozen=True, kw_only=True):
    """The user's bootstrap files.

    whole: given to Envoy as it is, in place of the bootstrap that the agent makes.
    admin: where its admin interface listens, if the supervisor can't read that itself.
    override: YAML or JSON that Envoy merges over the bootstrap.
    host_ip: what `$(HOST_IP)` stands for in the override.
    """

    whole: Path | None = None
    admin: envoy_supervisor.Address | None = None
    override: Path | None = None
    host_ip: str = ""

    @property
    def paths(self) -> tuple[Path, ...]:
        """The files that are configured, whether or not they exist."""
        return tuple(path for path in (self.whole, self.override) if path is not None)

    def override_arguments(self) -> tuple[str, ...]:
        """Return Envoy's arguments for the override, read anew; raises `BootstrapError`."""
        if self.override is None:
            return ()
        environ = {"HOST_IP": self.host_ip} if self.host_ip else {}
        return envoy_supervisor.bootstrap_override(self.override, environ)


def bootstrap_files(settings: Settings, proxy: ProxyConfig) -> BootstrapFiles:
    """Return the user's files, found in Istio's order; mistakes go to the settings' problems."""
    named = (
        ("ISTIO_BOOTSTRAP", settings.text("ISTIO_BOOTSTRAP")),
        ("customConfigFile", proxy.custom_config_file),
        ("proxyBootstrapTemplatePath", proxy.template_path),
    )
    setting, path = next((each for each in named if each[1]), ("", ""))
    override = settings.text("ISTIO_BOOTSTRAP_OVERRIDE")
    whole = settings.under(path) if path else None
    text = None
    if whole is not None:
        text = _read(setting, whole, settings)
    return BootstrapFiles(
        whole=whole,
        admin=None if whole is None or text is None else _admin(whole, text, settings),
        override=settings.under(override) if override else None,
        host_ip=settings.text("HOST_IP"),
    )


def _read(name: str, path: Path, settings: Settings) -> str | None:
    try:
        text = settings.read_file(path, max_bytes=_MAX_FILE_BYTES).decode("utf-8")
    except (OSError, UnicodeDecodeError) as error:
        why = error.strerror if isinstance(error, OSError) else "it is not UTF-8 text"
        settings.problems.append(f"{name}: {path} can't be read: {why}")
        return None
    if (action := _TEMPLATE_ACTION.search(text)) is not None:
        line = text.count("\n", 0, action.start()) + 1
        settings.problems.append(
            f"{name}: {path} is a Go template (see line {line}), which is not rendered here: give "
            "a finished bootstrap, or name a file with what differs in ISTIO_BOOTSTRAP_OVERRIDE"
        )
        return None
    return text


def _admin(path: Path, text: str, settings: Settings) -> envoy_supervisor.Address | None:
    """Return the admin address in a YAML bootstrap; one in JSON the supervisor reads itself."""
    try:
        json.loads(text)
    except (ValueError, RecursionError):
        pass
    else:
        return None
    try:
        document = read_mapping(str(path), text)
    except LayerError as error:
        settings.problems.extend(error.problems)
        return None
    match document.value:
        case {
            "admin": {
                "address": {"socket_address": {"address": str(host), "port_value": int(port)}}
            }
        }:
            return envoy_supervisor.Address(host=host, port=port)
        case _:
            pass
    settings.problems.append(
        f"{path}: no admin.address.socket_address with address and port_value: add it, the agent "
        "asks Envoy there whether it is ready"
    )
    return None
