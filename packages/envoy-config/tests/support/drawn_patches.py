"""Random patches of EnvoyFilters, right and wrong, without mistakes that are seen before."""

from typing import Any

import yaml
from hypothesis import strategies as st

from envoy_filters import MANAGER
from istio_config.kinds.envoy_filter import (
    ENVOY_FILTER,
    OF_LISTENERS,
    OF_ROUTES,
    OPERATIONS,
    ApplyTo,
    Operation,
)
from istio_config.kinds.metadata import Metadata
from patch_documents import FILTERS, adding, lua_filter

TCP_PROXY = {
    "name": "envoy.filters.network.tcp_proxy",
    "typed_config": {
        "@type": f"{FILTERS}.network.tcp_proxy.v3.TcpProxy",
        "stat_prefix": "x",
        "cluster": "BlackHoleCluster",
    },
}
TLS_INSPECTOR = {
    "name": "envoy.filters.listener.tls_inspector",
    "typed_config": {"@type": f"{FILTERS}.listener.tls_inspector.v3.TlsInspector"},
}
UPSTREAM_TLS = "type.googleapis.com/envoy.extensions.transport_sockets.tls.v3.UpstreamTlsContext"
ROUTE = {"match": {"prefix": "/"}, "route": {"cluster": "BlackHoleCluster"}}
HEADER = {"header": {"key": "x-a", "value": "b"}}
_HTTP = (
    lua_filter(adding("x-a", "b")),
    {"name": "mine", "typed_config": {"@type": f"{FILTERS}.http.cors.v3.Cors"}},
    {"name": "router", "typed_config": {"@type": f"{FILTERS}.http.router.v3.Router"}},
    {
        "name": "envoy.filters.http.fault",
        "typed_config": {"@type": f"{FILTERS}.http.fault.v3.HTTPFault", "max_active_faults": 1},
    },
    {"name": "none"},
)
_NETWORK = (
    TCP_PROXY,
    {
        "name": "envoy.filters.network.rbac",
        "typed_config": {"@type": f"{FILTERS}.network.rbac.v3.RBAC", "stat_prefix": "x"},
    },
    {
        "name": MANAGER,
        "typed_config": {
            "@type": f"{FILTERS}.network.http_connection_manager.v3.HttpConnectionManager",
            "stat_prefix": "x",
            "route_config": {"virtual_hosts": [{"name": "a", "domains": ["*"], "routes": [ROUTE]}]},
            "http_filters": [_HTTP[0], _HTTP[2]],
        },
    },
    {
        "name": MANAGER,
        "typed_config": {
            "@type": f"{FILTERS}.network.http_connection_manager.v3.HttpConnectionManager",
            "upgrade_configs": [{"upgrade_type": "websocket"}],
            "common_http_protocol_options": {"idle_timeout": "5s"},
        },
    },
    {
        "name": MANAGER,
        "typed_config": {
            "@type": f"{FILTERS}.network.http_connection_manager.v3.HttpConnectionManager",
            "xff_num_trusted_hops": 2,
            "original_ip_detection_extensions": [
                {
                    "name": "x",
                    "typed_config": {
                        "@type": "type.googleapis.com/envoy.extensions.http."
                        "original_ip_detection.xff.v3.XffConfig"
                    },
                }
            ],
        },
    },
    {
        "name": TCP_PROXY["name"],
        "typed_config": {
            "@type": f"{FILTERS}.network.tcp_proxy.v3.TcpProxy",
            "idle_timeout": "5s",
            "weighted_clusters": {"clusters": [{"name": "a", "weight": 1}]},
        },
    },
    {"name": "none"},
)
_CHAINS = (
    {"filters": [TCP_PROXY]},
    {"filter_chain_match": {"destination_port": 9999}, "filters": [TCP_PROXY]},
    {"name": "x", "filters": [_NETWORK[1]]},
    {"transport_socket_connect_timeout": "5s"},
    {
        "transport_socket": {
            "name": "envoy.transport_sockets.tls",
            "typed_config": {
                "@type": "type.googleapis.com/"
                "envoy.extensions.transport_sockets.tls.v3.DownstreamTlsContext",
                "common_tls_context": {"alpn_protocols": ["h2"]},
            },
        }
    },
    {"filter_chain_match": {"transport_protocol": "tls"}},
    {"filter_chain_match": {"server_names": ["a.example"]}, "filters": []},
)
VALUES: dict[ApplyTo, tuple[dict[str, Any], ...]] = {
    ApplyTo.LISTENER: (
        {"per_connection_buffer_limit_bytes": 100},
        {"name": "other"},
        {"transparent": True},
        {"bind_to_port": False},
        {"tcp_backlog_size": 1, "freebind": True, "enable_mptcp": False},
        {"access_log": [{"name": "none"}]},
        {"connection_balance_config": {"exact_balance": {}}},
        {"listener_filters_timeout": "-1s"},
        {"udp_listener_config": {}},
        {"additional_addresses": [{"address": {"pipe": {"path": "/a"}}}]},
        {"use_original_dst": True, "traffic_direction": "OUTBOUND"},
        {"default_filter_chain": {"filters": [TCP_PROXY]}},
        {"filter_chains": [{"filters": [TCP_PROXY]}]},
        {"socket_options": [{"level": 1, "name": 9, "int_value": 1, "state": "STATE_PREBIND"}]},
        {
            "name": "mine",
            "address": {"socket_address": {"address": "127.0.0.1", "port_value": 9}},
            "filter_chains": [{"filters": [TCP_PROXY]}],
        },
        {"name": "bare", "address": {"socket_address": {"address": "::1", "port_value": 9}}},
    ),
    ApplyTo.LISTENER_FILTER: (TLS_INSPECTOR, {"name": "none"}),
    ApplyTo.FILTER_CHAIN: _CHAINS,
    ApplyTo.NETWORK_FILTER: _NETWORK,
    ApplyTo.HTTP_FILTER: _HTTP,
    ApplyTo.ROUTE_CONFIGURATION: (
        {"request_headers_to_add": [HEADER]},
        {"virtual_hosts": [{"name": "x", "domains": ["*"]}]},
        {"name": "x"},
        {"max_direct_response_body_size_bytes": 10},
    ),
    ApplyTo.VIRTUAL_HOST: (
        {"name": "x", "domains": ["x.example"], "routes": [ROUTE]},
        {"name": "y", "domains": ["*"]},
        {"domains": ["y.example"]},
        {"require_tls": "ALL"},
        {"rate_limits": [{"actions": [{"remote_address": {}}]}]},
        {"hedge_policy": {"initial_requests": 0}},
        {"typed_per_filter_config": {"x": {"@type": f"{FILTERS}.http.cors.v3.CorsPolicy"}}},
        {"virtual_clusters": [{"name": "x"}]},
        {"retry_policy": {"retry_on": "5xx", "num_retries": 1}},
        {"request_headers_to_remove": ["x-a"]},
    ),
    ApplyTo.HTTP_ROUTE: (
        ROUTE,
        {"match": {"path": "/x"}, "redirect": {"path_redirect": "/y"}},
        {"route": {"timeout": "1s"}},
        {"route": {"weighted_clusters": {"clusters": [{"name": "a", "weight": 0}]}}},
        {"route": {"weighted_clusters": {"clusters": [{"name": "a", "weight": 1}]}}},
        {"route": {"prefix_rewrite": "/a"}},
        {"route": {"regex_rewrite": {"pattern": {"regex": "a"}, "substitution": "\\1"}}},
        {"route": {"host_rewrite_literal": "a", "retry_policy": {"retry_on": "unknown"}}},
        {"route": {"rate_limits": [{"stage": 11, "actions": []}]}},
        {"route": {"hash_policy": [{"header": {"header_name": ""}}]}},
        {"route": {"request_mirror_policies": [{"cluster": "a"}], "cluster_header": "x"}},
        {"match": {"path_separated_prefix": "/a/"}},
        {"match": {"headers": [{"name": "a", "string_match": {"exact": "b"}}]}},
        {"match": {"query_parameters": [{"name": ""}]}},
        {"match": {"connect_matcher": {}}},
        {"match": {"path_match_policy": {"name": "none"}}},
        {"redirect": {"path_redirect": "/a", "prefix_rewrite": "/b"}},
        {"redirect": {"response_code": "SEE_OTHER", "scheme_redirect": "x"}},
        {"direct_response": {"status": 200, "body": {"inline_string": "x" * 5000}}},
        {"redirect": {"host_redirect": "a"}},
        {"direct_response": {"status": 204}},
        {"match": {"safe_regex": {"regex": "("}}},
        {"name": "x", "request_headers_to_add": [HEADER]},
        {"request_headers_to_add": [{"header": {"key": ":path", "value": "/"}}]},
        {"request_headers_to_add": [{"header": {"key": "x-b", "value": "100%"}}]},
    ),
    ApplyTo.CLUSTER: (
        {"connect_timeout": "1s"},
        {"connect_timeout": "0s"},
        {"name": "other"},
        {"type": "STRICT_DNS"},
        {"type": "EDS"},
        {"lb_policy": "RING_HASH", "ring_hash_lb_config": {"minimum_ring_size": 9}},
        {"lb_policy": "MAGLEV", "maglev_lb_config": {"table_size": 8}},
        {"lb_policy": "CLUSTER_PROVIDED"},
        {"circuit_breakers": {"thresholds": [{"max_connections": 1}]}},
        {"transport_socket": {"name": "x", "typed_config": {"@type": UPSTREAM_TLS}}},
        {"outlier_detection": {"consecutive_5xx": 1}},
        {"upstream_bind_config": {"source_address": {"address": "127.0.0.1", "port_value": 0}}},
        {"http2_protocol_options": {}},
        {
            "typed_extension_protocol_options": {
                "envoy.extensions.upstreams.http.v3.HttpProtocolOptions": {
                    "@type": "type.googleapis.com/"
                    "envoy.extensions.upstreams.http.v3.HttpProtocolOptions",
                    "explicit_http_config": {"http2_protocol_options": {}},
                }
            }
        },
        {"load_balancing_policy": {"policies": []}},
        {"lb_subset_config": {"fallback_policy": "ANY_ENDPOINT", "subset_selectors": [{}]}},
        {"filters": [{"name": "none"}]},
        {"transport_socket": {"name": "envoy.transport_sockets.tls"}},
        {"dns_lookup_family": "V6_ONLY", "respect_dns_ttl": True},
        {"cluster_type": {"name": "none"}},
        {"common_lb_config": {"healthy_panic_threshold": {"value": 200}}},
        {"max_requests_per_connection": 1, "track_cluster_stats": {"request_response_sizes": True}},
        {"outlier_detection": {"max_ejection_percent": 101}},
        {"health_checks": [{"timeout": "1s"}]},
        {
            "name": "mine",
            "connect_timeout": "1s",
            "load_assignment": {"cluster_name": "mine"},
        },
        {"name": "empty", "type": "STATIC", "connect_timeout": "1s"},
    ),
}
_CONTEXTS = ("ANY", "SIDECAR_INBOUND", "SIDECAR_OUTBOUND", "GATEWAY")
_HTTP_NAMES = ("router", "cors", "fault", "lua", "rbac")


@st.composite
def _listener_matches(draw: st.DrawFn, apply_to: ApplyTo) -> dict[str, Any]:
    network: dict[str, Any] = {
        "name": draw(st.sampled_from([MANAGER, "envoy.filters.network.tcp_proxy"]))
    }
    if apply_to is ApplyTo.HTTP_FILTER:
        name = draw(st.sampled_from(_HTTP_NAMES))
        network = {"name": MANAGER, "subFilter": {"name": f"envoy.filters.http.{name}"}}
    found: dict[str, Any] = {}
    if draw(st.booleans()):
        found["filterChain"] = {"filter": network}
    if apply_to is ApplyTo.LISTENER_FILTER:
        found["listenerFilter"] = "envoy.filters.listener.tls_inspector"
    if draw(st.integers(0, 3)) == 0:
        found["name"] = draw(st.sampled_from(["virtualInbound", "virtualOutbound", "0.0.0.0_80"]))
    return found


@st.composite
def _patches(draw: st.DrawFn) -> dict[str, Any]:
    apply_to = draw(st.sampled_from(list(VALUES)))
    operation = draw(st.sampled_from(sorted(OPERATIONS[apply_to])))
    match: dict[str, Any] = {"context": draw(st.sampled_from(_CONTEXTS))}
    if apply_to in OF_LISTENERS:
        match["listener"] = draw(_listener_matches(apply_to))
    elif apply_to in OF_ROUTES and draw(st.booleans()):
        match["routeConfiguration"] = {"vhost": {"route": {"action": "ROUTE"}}}
    elif apply_to is ApplyTo.CLUSTER and draw(st.booleans()):
        match["cluster"] = {"portNumber": draw(st.sampled_from([80, 443]))}
    change: dict[str, Any] = {"operation": str(operation)}
    if operation is not Operation.REMOVE:
        change["value"] = draw(st.sampled_from(VALUES[apply_to]))
    return {"applyTo": str(apply_to), "match": match, "patch": change}


def _is_right(patch: dict[str, Any]) -> bool:
    body = ENVOY_FILTER.read({"configPatches": [patch]}, (), Metadata(name="x"))
    mistakes = body.mistakes
    return not mistakes


def envoy_filters(*, most: int = 6) -> st.SearchStrategy[str]:
    """Draw the YAML of an EnvoyFilter of the root namespace."""
    patches = st.lists(_patches().filter(_is_right), min_size=1, max_size=most)
    return patches.map(_yaml)


def _yaml(patches: list[dict[str, Any]]) -> str:
    return yaml.safe_dump(
        {
            "apiVersion": "networking.istio.io/v1alpha3",
            "kind": "EnvoyFilter",
            "metadata": {"name": "drawn", "namespace": "istio-system"},
            "spec": {"configPatches": patches},
        }
    )
