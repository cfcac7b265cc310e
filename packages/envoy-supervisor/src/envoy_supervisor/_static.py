"""The clusters and listeners that stand in every bootstrap."""

from __future__ import annotations

from envoy_supervisor._address import Address, UnixAddress, envoy_address
from envoy_supervisor._json import JSON

TYPES = "type.googleapis.com/envoy.extensions"


def static_cluster(
    name: str,
    target: Address | UnixAddress,
    *,
    http2: bool = False,
    connect_timeout: str | None = None,
) -> dict[str, JSON]:
    """A cluster of one fixed endpoint."""
    cluster: dict[str, JSON] = {
        "name": name,
        # Ends the name visibly in statistics, so that a tag can take in names with dots.
        "alt_stat_name": f"{name};",
        "type": "STATIC",
        "connect_timeout": connect_timeout or ("1s" if http2 else "0.250s"),
        "load_assignment": {
            "cluster_name": name,
            "endpoints": [{"lb_endpoints": [{"endpoint": {"address": envoy_address(target)}}]}],
        },
    }
    if http2:
        cluster["typed_extension_protocol_options"] = http2_options()
    return cluster


def xds_cluster(name: str, target: UnixAddress) -> dict[str, JSON]:
    """The cluster of the configuration stream, which no limit of Envoy's may ever hold up."""
    limits: list[JSON] = [
        {
            "priority": priority,
            "max_connections": 100000,
            "max_pending_requests": 100000,
            "max_requests": 100000,
        }
        for priority in ("DEFAULT", "HIGH")
    ]
    return {
        **static_cluster(name, target),
        "connect_timeout": "1s",
        "circuit_breakers": {"thresholds": limits},
        "upstream_connection_options": {"tcp_keepalive": {"keepalive_time": 300}},
        # A new stream gets a new connection: after a failure nothing of the old one lingers.
        "typed_extension_protocol_options": http2_options(max_requests=1),
    }


def http_listener(
    address: Address,
    *,
    stat_prefix: str,
    path_prefix: str,
    cluster: str,
    additional: tuple[Address, ...] = (),
) -> dict[str, JSON]:
    """A listener that forwards one path to one cluster and answers 404 to all else."""
    route: JSON = {
        "name": "backend",
        "domains": ["*"],
        "routes": [{"match": {"prefix": path_prefix}, "route": {"cluster": cluster}}],
    }
    manager: JSON = {
        "@type": f"{TYPES}.filters.network.http_connection_manager.v3.HttpConnectionManager",
        "codec_type": "AUTO",
        "stat_prefix": stat_prefix,
        "route_config": {"virtual_hosts": [route]},
        "http_filters": [
            {
                "name": "envoy.filters.http.router",
                "typed_config": {"@type": f"{TYPES}.filters.http.router.v3.Router"},
            }
        ],
    }
    others: list[JSON] = [{"address": envoy_address(other)} for other in additional]
    return {
        "address": envoy_address(address),
        **({"additional_addresses": others} if others else {}),
        # Limits meant for traffic must not make the proxy look dead to those who watch it.
        "ignore_global_conn_limit": True,
        "bypass_overload_manager": True,
        "filter_chains": [
            {
                "filters": [
                    {
                        "name": "envoy.filters.network.http_connection_manager",
                        "typed_config": manager,
                    }
                ]
            }
        ],
    }


def http2_options(*, max_requests: int | None = None) -> dict[str, JSON]:
    """What makes a cluster speak HTTP/2."""
    options: dict[str, JSON] = {
        "@type": f"{TYPES}.upstreams.http.v3.HttpProtocolOptions",
        "explicit_http_config": {"http2_protocol_options": {}},
    }
    if max_requests is not None:
        options["common_http_protocol_options"] = {"max_requests_per_connection": max_requests}
    return {"envoy.extensions.upstreams.http.v3.HttpProtocolOptions": options}
