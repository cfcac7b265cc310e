"""Renders Envoy's bootstrap: a pure function of typed configuration.

The result is plain JSON values, never text put together from pieces: node metadata stays data,
whatever its content.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from ipaddress import IPv4Address, ip_address
from pathlib import Path

import msgspec

from envoy_supervisor._address import Address, UnixAddress, envoy_address
from envoy_supervisor._errors import BootstrapError
from envoy_supervisor._json import JSON, clean_json, clean_text
from envoy_supervisor.bootstrap._collectors import collector_cluster
from envoy_supervisor.bootstrap._overload_manager import overload_manager
from envoy_supervisor.bootstrap._static_resources import (
    TYPES,
    http_listener,
    local_cluster,
    static_cluster,
    xds_cluster,
)
from envoy_supervisor.bootstrap._stats_config import StatsConfig, stats_config, stats_intervals
from envoy_supervisor.bootstrap._telemetry import (
    AccessLogService,
    LoadReportingService,
    MetricsService,
    Statsd,
    Tracing,
    load_reporting_config,
    stats_sinks,
    tracing_cluster,
    tracing_config,
)
from mesh_lifecycle import check_fields

DEFAULT_RUNTIME: Mapping[str, JSON] = {
    "re2.max_program_size.error_level": "32768",
    "envoy.reloadable_features.http_reject_path_with_fragment": False,
}


# The key of this limit before it became a resource monitor; still found in configurations.
MAX_CONNECTIONS_KEY = "overload.global_downstream_max_connections"
UNLIMITED_CONNECTIONS = 2**31 - 1
_ANY_IPV4 = IPv4Address(0)


class Locality(msgspec.Struct, frozen=True, kw_only=True):
    """The place where the workload runs; empty parts are left out."""

    region: str = ""
    zone: str = ""
    sub_zone: str = ""


_NOWHERE = Locality()
_ADMIN = Address(host="127.0.0.1", port=15000)
_STATUS = Address(host="127.0.0.1", port=15020)
_STATS = StatsConfig()
_STATS_PATHS = ("/stats/prometheus",)
_METRICS_PATHS = ("/stats/prometheus", "/metrics")


@dataclass(frozen=True, slots=True, kw_only=True)
class BootstrapConfig:
    """The values that a proxy's bootstrap is rendered from.

    node_id, node_cluster, node_metadata, locality: tell the control plane which proxy it is.
    admin: where Envoy's admin interface listens; keep it on loopback or a Unix socket, it is not
        authenticated.
    xds_socket: the Unix socket on which configuration (ADS) is served.
    sds_socket: the Unix socket on which secrets (SDS) are served, as cluster `sds-grpc`.
    sds_files_socket: a second socket for secrets that come from files, as cluster
        `sds-files-grpc`; None: no such cluster.
    status_target: where readiness is answered, as cluster `agent`.
    readiness_listener: Envoy answers `/healthz/ready` here by asking status_target; None: nowhere.
    readiness_proxy_protocol: callers of readiness_listener may begin with the PROXY protocol.
    prometheus_listener: Envoy serves `/stats/prometheus` here; None: nowhere.
    secure_prometheus_listener: the same with TLS, for callers with a certificate of the mesh.
    secure_metrics_listener: likewise, the agent's `/stats/prometheus` and `/metrics` (asked at
        status_target), which add the application's metrics to Envoy's.
    delta_xds: ask for configuration incrementally instead of state-of-the-world.
    runtime: runtime values laid over the defaults; an empty string removes a default, and the
        texts "true" and "false" become booleans.
    max_connections: how many downstream connections Envoy takes over all; None: what `runtime`
        says under its older name `overload.global_downstream_max_connections`, else no limit.
    max_heap_bytes: at nine tenths of this Envoy gives memory back, near it refuses requests
        instead of being killed; see `memory_limit`. None: no such limit.
    dual_stack: let listeners on an IPv4 wildcard listen on the IPv6 wildcard as well.
    tracing: where spans go. statsd, metrics_service: where statistics go besides.
    access_log_service: makes the cluster that access logs can be sent to.
    load_reporting: where the load on each cluster's endpoints is reported to.
    local_cluster: the service this proxy belongs to, as its cluster is called on the control
        plane: Envoy then prefers endpoints in its own zone, as far as the spread of this service's
        own endpoints allows. Needs `locality.zone`.
    outlier_log: the file that outlier detection's events are written to.
    stats: which statistics Envoy keeps and how it tags them.
    """

    node_id: str
    node_cluster: str
    node_metadata: Mapping[str, JSON] = field(default_factory=dict)
    locality: Locality = _NOWHERE
    admin: Address | UnixAddress = _ADMIN
    xds_socket: Path
    sds_socket: Path
    sds_files_socket: Path | None = None
    status_target: Address = _STATUS
    readiness_listener: Address | None = None
    readiness_proxy_protocol: bool = False
    prometheus_listener: Address | None = None
    secure_prometheus_listener: Address | None = None
    secure_metrics_listener: Address | None = None
    delta_xds: bool = False
    runtime: Mapping[str, JSON] = field(default_factory=dict)
    max_connections: int | None = None
    max_heap_bytes: int | None = None
    dual_stack: bool = False
    tracing: Tracing | None = None
    statsd: Statsd | None = None
    metrics_service: MetricsService | None = None
    access_log_service: AccessLogService | None = None
    load_reporting: LoadReportingService | None = None
    local_cluster: str | None = None
    outlier_log: Path | None = None
    stats: StatsConfig = _STATS

    def __post_init__(self) -> None:
        check_fields(self, error=BootstrapError)

    @property
    def own_listeners(self) -> tuple[Address, ...]:
        """The listeners for probes and scrapers, which have none of the proxy's traffic."""
        listeners = (
            self.readiness_listener,
            self.prometheus_listener,
            self.secure_prometheus_listener,
            self.secure_metrics_listener,
        )
        return tuple(filter(None, listeners))


def render_bootstrap(config: BootstrapConfig) -> dict[str, JSON]:
    """Return the bootstrap, as JSON values for `json.dumps`.

    Raises `BootstrapError` for values that JSON cannot express.
    """
    sinks = list(stats_sinks(config.statsd, config.metrics_service))
    optional: dict[str, JSON | None] = {
        "tracing": tracing_config(config.tracing) if config.tracing else None,
        "stats_sinks": sinks or None,
        "cluster_manager": _cluster_manager(config) or None,
    }
    return {
        "node": _node(config),
        "admin": {
            "access_log": [
                {
                    "name": "envoy.access_loggers.file",
                    "typed_config": {
                        "@type": f"{TYPES}.access_loggers.file.v3.FileAccessLog",
                        "path": "/dev/null",
                    },
                }
            ],
            "address": envoy_address(config.admin),
        },
        "layered_runtime": _runtime(config.runtime),
        "stats_config": stats_config(config.stats),
        **stats_intervals(config.stats),
        **{name: value for name, value in optional.items() if value is not None},
        "overload_manager": overload_manager(_max_connections(config), config.max_heap_bytes),
        "dynamic_resources": _dynamic_resources(delta=config.delta_xds),
        "static_resources": {
            "clusters": [
                static_cluster("prometheus_stats", config.admin),
                static_cluster("agent", config.status_target),
                static_cluster("sds-grpc", UnixAddress(path=config.sds_socket), http2=True),
                xds_cluster("xds-grpc", UnixAddress(path=config.xds_socket)),
                *_optional_clusters(config),
            ],
            "listeners": _listeners(config),
        },
    }


def _node(config: BootstrapConfig) -> dict[str, JSON]:
    node: dict[str, JSON] = {
        "id": clean_text(config.node_id),
        "cluster": clean_text(config.node_cluster),
        "metadata": clean_json(config.node_metadata, "node metadata"),
    }
    parts = {
        "region": config.locality.region,
        "zone": config.locality.zone,
        "sub_zone": config.locality.sub_zone,
    }
    if locality := {name: clean_text(value) for name, value in parts.items() if value}:
        node["locality"] = locality
    return node


def _runtime(overlay: Mapping[str, JSON]) -> dict[str, JSON]:
    values = dict(DEFAULT_RUNTIME)
    for key, value in overlay.items():
        if key == MAX_CONNECTIONS_KEY:
            continue
        if value == "":
            values.pop(key, None)
        else:
            values[key] = (
                {"true": True, "false": False}.get(value, value)
                if isinstance(value, str)
                else value
            )
    return {
        "layers": [
            {"name": "global config", "static_layer": clean_json(values, "runtime")},
            {"name": "admin", "admin_layer": {}},
        ]
    }


def _cluster_manager(config: BootstrapConfig) -> dict[str, JSON]:
    manager: dict[str, JSON] = {}
    if config.outlier_log is not None:
        manager["outlier_detection"] = {"event_log_path": str(config.outlier_log)}
    if config.local_cluster is not None:
        manager["local_cluster_name"] = clean_text(config.local_cluster)
    if config.load_reporting is not None:
        manager["load_stats_config"] = load_reporting_config(config.load_reporting)
    return manager


def _max_connections(config: BootstrapConfig) -> int:
    if config.max_connections is not None:
        return config.max_connections
    older = str(config.runtime.get(MAX_CONNECTIONS_KEY, ""))
    if older == "":
        return UNLIMITED_CONNECTIONS
    if not (older.isascii() and older.isdigit()):
        raise BootstrapError(
            f"runtime {MAX_CONNECTIONS_KEY} is {older!r}, which is not a number of connections"
        )
    return int(older)


def _dynamic_resources(*, delta: bool) -> dict[str, JSON]:
    source: JSON = {"ads": {}, "initial_fetch_timeout": "0s", "resource_api_version": "V3"}
    return {
        "lds_config": source,
        "cds_config": source,
        "ads_config": {
            "api_type": "DELTA_GRPC" if delta else "GRPC",
            "transport_api_version": "V3",
            "set_node_on_first_message_only": True,
            "grpc_services": [{"envoy_grpc": {"cluster_name": "xds-grpc"}}],
        },
    }


def _optional_clusters(config: BootstrapConfig) -> Iterator[JSON]:
    if config.sds_files_socket is not None:
        files = UnixAddress(path=config.sds_files_socket)
        yield static_cluster("sds-files-grpc", files, http2=True)
    if config.tracing is not None:
        yield tracing_cluster(config.tracing)
    if (service := config.metrics_service) is not None:
        yield collector_cluster("envoy_metrics_service", service.target, service.tls, http2=True)
    if (log := config.access_log_service) is not None:
        yield collector_cluster("envoy_accesslog_service", log.target, log.tls, http2=True)
    if (loads := config.load_reporting) is not None and loads.target is not None:
        yield collector_cluster("load_reporting_service", loads.target, loads.tls, http2=True)
    if config.local_cluster is not None:
        yield local_cluster(clean_text(config.local_cluster))


def _both_stacks(config: BootstrapConfig, address: Address) -> tuple[Address, ...]:
    """Return the further addresses to listen on."""
    if config.dual_stack and ip_address(address.host) == _ANY_IPV4:
        return (Address(host="::", port=address.port),)
    return ()


def _listeners(config: BootstrapConfig) -> list[JSON]:
    """Return the listeners of `BootstrapConfig.own_listeners`."""
    own: tuple[tuple[Address | None, str, tuple[str, ...], str, bool], ...] = (
        (config.prometheus_listener, "stats", _STATS_PATHS, "prometheus_stats", False),
        (config.readiness_listener, "agent", ("/healthz/ready",), "agent", False),
        (config.secure_prometheus_listener, "secure_stats", _STATS_PATHS, "prometheus_stats", True),
        (config.secure_metrics_listener, "secure_metrics", _METRICS_PATHS, "agent", True),
    )
    return [
        http_listener(
            address,
            stat_prefix=stat_prefix,
            paths=paths,
            cluster=cluster,
            additional=_both_stacks(config, address),
            mesh_tls=mesh_tls,
            proxy_protocol=config.readiness_proxy_protocol and stat_prefix == "agent",
        )
        for address, stat_prefix, paths, cluster, mesh_tls in own
        if address is not None
    ]
