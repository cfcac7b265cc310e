"""Requests for hosts that the mesh does not know, when ALLOW_ANY lets them through.

Istio sends them on to where the connection was going before it was intercepted. Where nothing is
intercepted, or with ALLOW_ANY_DYNAMIC_DNS, the host in the request says where: Envoy's dynamic
forward proxy looks it up. A request that comes round again (its host is the listener itself) bears
a mark and is answered with 508 instead of going round for ever.
"""

from envoy_config.generate._messages import (
    base_pb2,
    cluster_pb2,
    dfp_cluster_pb2,
    dfp_filter_pb2,
    dns_cache_pb2,
    http_connection_manager_pb2,
    packed,
    route_components_pb2,
    sni_dfp_pb2,
)
from envoy_config.plan import _envoy_names as names

MARK = "x-mesh-passthrough"


def forward_by_host(cluster: cluster_pb2.Cluster) -> None:
    """Make a cluster connect to the host that each request names."""
    cluster.lb_policy = cluster_pb2.Cluster.LbPolicy.CLUSTER_PROVIDED
    cluster.cluster_type.CopyFrom(
        cluster_pb2.Cluster.CustomClusterType(
            name="envoy.clusters.dynamic_forward_proxy",
            typed_config=packed(dfp_cluster_pb2.ClusterConfig(dns_cache_config=_dns_cache())),
        )
    )


def lookup_filter() -> http_connection_manager_pb2.HttpFilter:
    """Make the filter that looks a request's host up, if it is routed to such a cluster."""
    return http_connection_manager_pb2.HttpFilter(
        name="envoy.filters.http.dynamic_forward_proxy",
        typed_config=packed(dfp_filter_pb2.FilterConfig(dns_cache_config=_dns_cache())),
    )


def sni_lookup(port: int) -> sni_dfp_pb2.FilterConfig:
    """Make the settings of the filter that looks up the host that a TLS connection names."""
    return sni_dfp_pb2.FilterConfig(dns_cache_config=_dns_cache(), port_value=port)


def mark_routes(route: route_components_pb2.Route) -> list[route_components_pb2.Route]:
    """Return this route with its mark, after one that stops what is marked already."""
    route.request_headers_to_add.append(
        route_header(MARK, "1"),
    )
    marked = route_components_pb2.Route(
        name="passthrough_loop",
        match=route_components_pb2.RouteMatch(
            prefix="/",
            headers=[route_components_pb2.HeaderMatcher(name=MARK, present_match=True)],
        ),
        direct_response=route_components_pb2.DirectResponseAction(status=508),
    )
    return [marked, route]


def route_header(name: str, value: str) -> base_pb2.HeaderValueOption:
    """Make a header that replaces what the request has."""
    option = base_pb2.HeaderValueOption
    return option(
        header=base_pb2.HeaderValue(key=name, value=value),
        append_action=option.HeaderAppendAction.OVERWRITE_IF_EXISTS_OR_ADD,
    )


def _dns_cache() -> dns_cache_pb2.DnsCacheConfig:
    return dns_cache_pb2.DnsCacheConfig(
        name=names.PASSTHROUGH, dns_lookup_family=cluster_pb2.Cluster.DnsLookupFamily.V4_PREFERRED
    )
