"""The static clusters and listeners of a bootstrap."""

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
    """Return a cluster of one fixed endpoint."""
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
    """Return the cluster of the xDS stream, which no limit of Envoy's may ever hold up."""
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


def local_cluster(name: str) -> dict[str, JSON]:
    """Return the cluster of the proxy's own service: the control plane sends its endpoints."""
    return {
        "name": name,
        "alt_stat_name": f"{name};",
        "type": "EDS",
        "connect_timeout": "1s",
        # Without an answer Envoy starts all the same, after its own 15 s, and routes to all zones.
        "eds_cluster_config": {"eds_config": {"ads": {}, "resource_api_version": "V3"}},
    }


_READS: JSON = {"name": ":method", "string_match": {"safe_regex": {"regex": "GET|HEAD"}}}
_TIMEOUTS: dict[str, JSON] = {
    "request_headers_timeout": "10s",
    "stream_idle_timeout": "30s",
    # Between requests, and before the first one.
    "common_http_protocol_options": {"idle_timeout": "60s"},
}
_MOST_CONNECTIONS = 1000
"""For each of Envoy's own listeners: probes and scrapers are few, and Envoy's global limit of
connections does not count here."""


_PROXY_PROTOCOL: JSON = {
    "name": "envoy.filters.listener.proxy_protocol",
    "typed_config": {
        "@type": f"{TYPES}.filters.listener.proxy_protocol.v3.ProxyProtocol",
        "allow_requests_without_proxy_protocol": True,
    },
}


def http_listener(
    address: Address,
    *,
    stat_prefix: str,
    paths: tuple[str, ...],
    cluster: str,
    additional: tuple[Address, ...] = (),
    mesh_tls: bool = False,
    proxy_protocol: bool = False,
) -> dict[str, JSON]:
    """Return a listener that forwards reads of exactly these paths; 404 to all else.

    Envoy's admin interface resolves `..` and percent-encoding itself and authenticates no caller:
    behind a prefix route every page of it, `/quitquitquit` included, could be reached.

    mesh_tls: only for callers with a certificate of the mesh.
    proxy_protocol: for load balancers that send the PROXY protocol, and for callers that do not.
    """
    # The server behind may answer this machine only, and then takes no foreign name for it.
    forward: JSON = {"cluster": cluster, "host_rewrite_literal": "localhost"}
    routes: list[JSON] = [
        {"match": {"path": path, "headers": [_READS]}, "route": forward} for path in paths
    ]
    route: JSON = {"name": "backend", "domains": ["*"], "routes": routes}
    manager: JSON = {
        "@type": f"{TYPES}.filters.network.http_connection_manager.v3.HttpConnectionManager",
        "codec_type": "AUTO",
        "stat_prefix": stat_prefix,
        "normalize_path": True,
        "merge_slashes": True,
        "path_with_escaped_slashes_action": "REJECT_REQUEST",
        **_TIMEOUTS,
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
        **({"listener_filters": [_PROXY_PROTOCOL]} if proxy_protocol else {}),
        # Limits meant for traffic must not make the proxy look dead to probes.
        "ignore_global_conn_limit": True,
        "bypass_overload_manager": True,
        "filter_chains": [
            {
                **({"transport_socket": _server_tls()} if mesh_tls else {}),
                "transport_socket_connect_timeout": "10s",
                "filters": [
                    {
                        "name": "envoy.filters.network.connection_limit",
                        "typed_config": {
                            "@type": (
                                f"{TYPES}.filters.network.connection_limit.v3.ConnectionLimit"
                            ),
                            "stat_prefix": stat_prefix,
                            "max_connections": _MOST_CONNECTIONS,
                        },
                    },
                    {
                        "name": "envoy.filters.network.http_connection_manager",
                        "typed_config": manager,
                    },
                ],
            }
        ],
    }


def mesh_secrets(names: tuple[JSON, ...] = ()) -> dict[str, JSON]:
    """Return a TLS context of the workload certificate and the trust bundle, both from SDS.

    names: matchers of the names that the peer may have; empty: every name that the bundle allows.
    """

    def secret(name: str) -> JSON:
        source: JSON = {
            "api_type": "GRPC",
            "transport_api_version": "V3",
            "set_node_on_first_message_only": True,
            "grpc_services": [{"envoy_grpc": {"cluster_name": "sds-grpc"}}],
        }
        config: JSON = {"api_config_source": source, "resource_api_version": "V3"}
        return {"name": name, "sds_config": config}

    context: dict[str, JSON] = {"tls_certificate_sds_secret_configs": [secret("default")]}
    if names:
        context["combined_validation_context"] = {
            "default_validation_context": {"match_typed_subject_alt_names": list(names)},
            "validation_context_sds_secret_config": secret("ROOTCA"),
        }
    else:
        context["validation_context_sds_secret_config"] = secret("ROOTCA")
    return context


def _server_tls() -> dict[str, JSON]:
    return {
        "name": "envoy.transport_sockets.tls",
        "typed_config": {
            "@type": f"{TYPES}.transport_sockets.tls.v3.DownstreamTlsContext",
            "require_client_certificate": True,
            "common_tls_context": {
                "tls_params": {"tls_minimum_protocol_version": "TLSv1_2"},
                "alpn_protocols": ["h2", "http/1.1"],
                **mesh_secrets(),
            },
        },
    }


def http2_options(*, max_requests: int | None = None) -> dict[str, JSON]:
    """Return the options that make a cluster speak HTTP/2."""
    options: dict[str, JSON] = {
        "@type": f"{TYPES}.upstreams.http.v3.HttpProtocolOptions",
        "explicit_http_config": {"http2_protocol_options": {}},
    }
    if max_requests is not None:
        options["common_http_protocol_options"] = {"max_requests_per_connection": max_requests}
    return {"envoy.extensions.upstreams.http.v3.HttpProtocolOptions": options}
