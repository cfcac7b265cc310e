"""The status server's configuration: its address, the metrics it merges, the probes it makes.

Source of the names: Istio's sidecar injection.
"""

from collections.abc import Mapping
from ipaddress import ip_address
from typing import TYPE_CHECKING

import msgspec

from istio_settings import (
    NodeIdentity,
    PodInfo,
    ProxyConfig,
    Settings,
    is_address,
)
from mesh_agent.config._scrape_targets import scrape_targets
from mesh_listening import HTTP_LIMITS, ConnectionLimits
from mesh_status_server import Source

if TYPE_CHECKING:
    from mesh_probes import Probe

_PROBERS = "ISTIO_KUBE_APP_PROBERS"


class DebugTap(msgspec.Struct, frozen=True, kw_only=True):
    """The address where questions to the control plane are answered as by Istio's agents.

    is_asked_for: a setting says so; else the agent goes without it where the port is taken.
    """

    host: str = "127.0.0.1"
    port: int
    is_asked_for: bool = True


class StatusConfig(msgspec.Struct, frozen=True, kw_only=True):
    """Where the status server listens; an empty host is every interface.

    local_metrics: metrics are for callers on this machine only.
    envoy_metrics: a scrape has Envoy's metrics after the agent's own.
    scrape_targets: the application's metrics, which come after Envoy's.
    app_probes: probes of the application that the agent makes for the kubelet, by path.
    probe_host: where these probes find the application.
    debug_tap: where questions to the control plane are answered besides; None: nowhere but on the
        status port.
    limits: how many connections, of one address and in all.
    """

    host: str
    port: int
    local_metrics: bool = False
    envoy_metrics: bool = True
    scrape_targets: tuple[Source, ...] = ()
    app_probes: "Mapping[str, Probe]" = msgspec.field(default_factory=dict)
    probe_host: str = "localhost"
    debug_tap: DebugTap | None = None
    limits: ConnectionLimits = HTTP_LIMITS


def status_config(
    settings: Settings, *, proxy: ProxyConfig, identity: NodeIdentity, pod: PodInfo
) -> StatusConfig:
    """Return the configuration of the status server."""
    localhost = settings.flag("REWRITE_PROBE_LEGACY_LOCALHOST_DESTINATION")
    return StatusConfig(
        host=settings.text("MESH_AGENT_BIND_ADDRESS"),
        port=proxy.status_port,
        local_metrics=settings.flag("METRICS_LOCALHOST_ACCESS_ONLY"),
        envoy_metrics=settings.flag("PILOT_AGENT_MERGE_ENVOY_STATS", default=True),
        scrape_targets=scrape_targets(settings, proxy=proxy, role=identity.role, pod=pod),
        app_probes=_app_probes(settings),
        probe_host="localhost" if localhost else identity.addresses[0],
        debug_tap=_debug_tap(settings),
        limits=_limits(settings),
    )


def _debug_tap(settings: Settings) -> DebugTap | None:
    switch, number = "PROXY_XDS_DEBUG_VIA_AGENT", "PROXY_XDS_DEBUG_VIA_AGENT_PORT"
    port = settings.port(number, 15004)
    if not settings.flag(switch, default=True):
        return None
    bind = settings.text("MESH_AGENT_BIND_ADDRESS")
    return DebugTap(
        # Each of several agents on a machine has an address of loopback; no other is listened at.
        host=bind if is_address(bind) and ip_address(bind).is_loopback else "127.0.0.1",
        port=port,
        is_asked_for=any(settings.text(each) for each in (switch, number)),
    )


def _app_probes(settings: Settings) -> "Mapping[str, Probe]":
    http2 = settings.flag("ISTIO_ENABLE_HTTP2_PROBING", default=True)
    text = settings.text(_PROBERS)
    if not text.strip():
        return {}
    from mesh_probes import ProbeConfigError, parse_kubernetes_probers  # few workloads have probes

    try:
        return parse_kubernetes_probers(text, http2=http2)
    except ProbeConfigError as error:
        settings.problems.extend(f"{_PROBERS}: {problem}" for problem in error.problems)
        return {}


def _limits(settings: Settings) -> ConnectionLimits:
    of_port, of_peer = "MESH_AGENT_STATUS_CONNECTIONS", "MESH_AGENT_STATUS_CONNECTIONS_PER_PEER"
    port = settings.count(of_port, HTTP_LIMITS.port)
    peer = settings.count(of_peer, min(HTTP_LIMITS.peer, max(1, port // 4)))
    if peer > port:
        settings.problems.append(
            f"{of_peer} ({peer}) is above {of_port} ({port}): one caller could keep all others "
            "out; lower one or raise the other"
        )
    return HTTP_LIMITS._replace(port=port, peer=peer)
