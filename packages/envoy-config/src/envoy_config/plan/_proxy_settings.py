"""The settings of a proxy's own that decide what it is sent.

Agents send their ProxyConfig in the node metadata PROXY_CONFIG, merged from files, annotations and
environment; what a proxy leaves out is as in mesh config's `defaultConfig`. Three settings are node
metadata of their own: HTTP10, IDLE_TIMEOUT and INBOUND_LISTENER_EXACT_BALANCE.
"""

import logging
from collections.abc import Mapping
from typing import NamedTuple

from envoy_config.plan.resolved._extensions import Extension
from envoy_config.plan.resolved._telemetry import Telemetry
from istio_config.kinds.checks import duration_mistake
from istio_config.kinds.mesh_config import ProxyConfig, proxy_config_mistakes
from mesh_configfile import Duration, DurationError, Value, field_name
from mesh_configfile.shapes import decode, differences

log = logging.getLogger(__name__)

_READ = ("proxyHeaders", "gatewayTopology", "connectionSettings", "tracing", "zipkinAddress")
_NO_CONFIG = ProxyConfig()
MOST_COUNTED = 200
"""A proxy with more listeners for calls makes no metrics of connections and of single endpoints:
counting takes a tenth of a megabyte of Envoy's memory a listener."""


class ProxySettings(NamedTuple):
    """All settings of one proxy that its listeners and routes depend on."""

    config: ProxyConfig = _NO_CONFIG
    accepts_http10: bool = False
    """Whether requests of HTTP/1.0 are taken."""
    idle_timeout: Duration | None = None
    """Of connections in and out for which nothing else says one."""
    balances_inbound: bool = False
    """Whether connections that come in are shared out evenly among Envoy's threads."""
    telemetry: Telemetry | None = None
    """The logs, traces and metrics; None: the logs of mesh config, and nothing else."""
    extensions: tuple[Extension, ...] = ()
    """What runs on requests and connections, in its order."""

    def over(self, mesh: ProxyConfig) -> "ProxySettings":
        """Return the settings with what the ProxyConfig leaves out as the mesh has it."""
        return self._replace(config=self.config.over(mesh))

    def without_metrics_of_calls(self) -> "ProxySettings":
        """Return the settings without the metrics of what the workload calls."""
        if self.telemetry is None:
            return self
        return self._replace(telemetry=self.telemetry.without_metrics_of_calls())


NO_SETTINGS = ProxySettings()


def proxy_settings(metadata: Mapping[str, object], *, node: str) -> ProxySettings:
    """Return the settings in a node's metadata; a part that can't be read is left out and logged.

    Agents of other versions may have fields that are not known here.
    """
    found = ProxySettings(
        config=_config(metadata.get("PROXY_CONFIG"), node=node),
        # By the variable's text alone, as Istio reads it: not `true`.
        accepts_http10=metadata.get("HTTP10") == "1",
        idle_timeout=_idle_timeout(metadata.get("IDLE_TIMEOUT"), node=node),
        balances_inbound=metadata_flag(metadata, "INBOUND_LISTENER_EXACT_BALANCE"),
    )
    return NO_SETTINGS if found == NO_SETTINGS else found


def metadata_flag(metadata: Mapping[str, object], key: str, *, default: bool = False) -> bool:
    """Read a flag as Istio does: text, since it comes from a variable, or a JSON truth value."""
    value = metadata.get(key)
    if isinstance(value, bool):
        return value
    text = value.lower() if isinstance(value, str) else ""
    return text in ("true", "1", "t") if text else default


def _config(given: object, *, node: str) -> ProxyConfig:
    if not isinstance(given, dict):
        return _NO_CONFIG
    config: dict[str, Value] = given
    good: dict[str, Value] = {}
    for name in _READ:
        value = config.get(name)
        if value is None:
            continue
        part: dict[str, Value] = {name: _with_whole_numbers(value)}
        findings = list(differences(part, ProxyConfig))
        findings = findings or list(proxy_config_mistakes(decode(part, ProxyConfig)))
        if not findings:
            good |= part
            continue
        log.warning(
            "a part of a proxy's ProxyConfig can't be read, that of the mesh is taken",
            extra={
                "node": node,
                "part": name,
                "problems": [f"{field_name(path)}: {text}" for path, text in findings],
            },
        )
    return decode(good, ProxyConfig) if good else _NO_CONFIG


def _with_whole_numbers(value: Value) -> Value:
    """Return a value with whole numbers as such: in a node's metadata all numbers are floats."""
    if isinstance(value, float) and value.is_integer():
        return int(value)
    if isinstance(value, list):
        return [_with_whole_numbers(each) for each in value]
    if isinstance(value, dict):
        return {key: _with_whole_numbers(each) for key, each in value.items()}
    return value


def _idle_timeout(given: object, *, node: str) -> Duration | None:
    if given is None or given == "":
        return None
    try:
        found = Duration.parse(given if isinstance(given, str) else repr(given))
    except DurationError as wrong:
        problem: str | None = str(wrong)
    else:
        problem = duration_mistake(found) if found else None
        if problem is None:
            return found
    log.warning(
        "a proxy's node metadata IDLE_TIMEOUT can't be read, connections have no such timeout",
        extra={"node": node, "value": given, "problem": problem},
    )
    return None
