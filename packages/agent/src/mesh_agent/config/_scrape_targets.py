"""Where the application serves its metrics, by what Istio's injection writes into the environment.

`ISTIO_PROMETHEUS_ANNOTATIONS` is a JSON object of the pod's annotations `prometheus.io/scrape`,
`path` and `port`, and of the targets in `prometheus.istio.io/scrape-targets`, which win over
path and port. All values are text, as annotations are.
"""

import json
import re
from collections.abc import Iterator, Mapping
from types import MappingProxyType

from istio_settings import (
    PodInfo,
    ProxyConfig,
    Settings,
    SettingWithoutEffect,
)
from mesh_status_server import Source, application_source

_VARIABLE = "ISTIO_PROMETHEUS_ANNOTATIONS"
_TARGETS = "prometheus.istio.io/scrape-targets"
_MERGE = "prometheus.istio.io/merge-metrics"
_KNOWN = ("scrape", "path", "port", "targets")
_DEFAULT_PATH, _DEFAULT_PORT = "/metrics", "80"
_LONGEST_QUOTE = 100
_PATH = re.compile(r"[!-\"$-~]*")
_RESERVED = MappingProxyType(
    {
        15000: "Envoy's admin interface",
        15001: "Envoy's outbound traffic",
        15004: "the debug port of Istio's agent",
        15006: "Envoy's inbound traffic",
        15008: "Envoy's tunnels",
        15020: "the agent's status port",
        15021: "Envoy's readiness",
        15053: "the agent's DNS server",
        15090: "Envoy's own metrics, which are merged anyway",
    }
)


def scrape_targets(
    settings: Settings, *, proxy: ProxyConfig, role: str, pod: PodInfo
) -> tuple[Source, ...]:
    """Return the application's targets, none if its metrics are not to be merged."""
    text = settings.text(_VARIABLE).strip()
    annotated = pod.annotations.get(_TARGETS, "").strip()
    if pod.annotations.get(_MERGE, "").strip() == "false":
        annotated = ""
    if not text and not annotated:
        return ()
    if role != "sidecar":
        setting = _VARIABLE if text else f"annotation {_TARGETS}"
        settings.without_effect.append(
            SettingWithoutEffect(
                setting, "only a sidecar has an application whose metrics are merged"
            )
        )
        return ()
    values = _object(text, settings) if text else {}
    if values is None or not _wanted(values, settings):
        return ()
    reserved = {
        **_RESERVED,
        proxy.proxy_admin_port: _RESERVED[15000],
        proxy.status_port: _RESERVED[15020],
    }
    found = _Targets(settings, reserved)
    return tuple(dict.fromkeys(found.read(values, annotated)))


def _object(text: str, settings: Settings) -> Mapping[str, object] | None:
    try:
        values = json.loads(text)
    except (ValueError, RecursionError) as error:
        why = "nested too deeply" if isinstance(error, RecursionError) else str(error)
        settings.problems.append(f"{_VARIABLE} is not JSON: {why}")
        return None
    if not isinstance(values, dict):
        settings.problems.append(f"{_VARIABLE} must be a JSON object with {', '.join(_KNOWN)}")
        return None
    if unknown := [str(key) for key in values if key not in _KNOWN]:
        names = f"{_VARIABLE}: {', '.join(unknown)[:_LONGEST_QUOTE]}"
        settings.without_effect.append(
            SettingWithoutEffect(names, f"the known fields are {', '.join(_KNOWN)}")
        )
    return values


def _wanted(values: Mapping[str, object], settings: Settings) -> bool:
    scrape = values.get("scrape")
    said = str(scrape).strip().lower() if scrape is not None else ""
    if said not in ("", "true", "false"):
        reason = f"it is {said[:_LONGEST_QUOTE]!r}, and only false keeps metrics from being merged"
        settings.without_effect.append(SettingWithoutEffect(f"{_VARIABLE}: scrape", reason))
    return said != "false"


class _Targets:
    """Reads targets; what is wrong with one becomes a problem, and the target is left out."""

    def __init__(self, settings: Settings, reserved: Mapping[int, str]) -> None:
        self._settings = settings
        self._reserved = reserved

    def read(self, values: Mapping[str, object], annotated: str) -> Iterator[Source]:
        listed = values.get("targets")
        if not listed:
            listed, where = annotated, f"annotation {_TARGETS}"
        else:
            where = f"{_VARIABLE}: targets"
        if not listed:
            port, path = values.get("port"), values.get("path")
            yield from self._target(_VARIABLE, port or _DEFAULT_PORT, path or _DEFAULT_PATH)
            return
        if values.get("port") or values.get("path"):
            self._settings.without_effect.append(
                SettingWithoutEffect(
                    f"{_VARIABLE}: port and path", f"the targets of {where} are used instead"
                )
            )
        items = listed.split(",") if isinstance(listed, str) else listed
        if not isinstance(items, list):
            self._settings.problems.append(f"{where} is {listed!r}, it must be a list of port:path")
            return
        for item in items:
            match item:
                case {"port": port}:
                    yield from self._target(where, port, item.get("path") or _DEFAULT_PATH)
                case str() if item.strip():
                    port, _, path = item.strip().partition(":")
                    yield from self._target(where, port, path or _DEFAULT_PATH)
                case str():
                    pass
                case _:
                    self._settings.problems.append(f"{where} has {item!r}, it must be port:path")

    def _target(self, where: str, port: object, path: object) -> Iterator[Source]:
        number = _number(port)
        if number is None:
            self._settings.problems.append(
                f"{where}: port is {port!r}, it must be a number, 1 to 65535"
            )
        elif number in self._reserved:
            self._settings.problems.append(
                f"{where}: port {number} is {self._reserved[number]}; name the port at which the "
                "application serves its metrics"
            )
        if not isinstance(path, str) or not _PATH.fullmatch(path.strip()):
            self._settings.problems.append(
                f"{where}: path is {path!r}, it must be a path such as /metrics"
            )
        elif number is not None and number not in self._reserved:
            yield application_source(number, f"/{path.strip().removeprefix('/')}")


def _number(port: object) -> int | None:
    text = str(port).strip()
    if isinstance(port, bool) or not text.isascii() or not text.isdigit() or len(text) > 5:
        return None
    return int(text) if 0 < int(text) < 65536 else None
