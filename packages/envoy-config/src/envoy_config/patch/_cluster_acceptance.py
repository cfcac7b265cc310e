"""Finds what Envoy refuses in patched clusters, beside the constraints of its API.

Seen with Envoy 1.36 and 1.40.
"""

from collections.abc import Iterator

from envoy.config.endpoint.v3 import endpoint_components_pb2

from envoy_config.generate._messages import cluster_pb2
from envoy_config.patch._acceptance import broken_constraints
from envoy_config.patch._socket_acceptance import (
    HTTP_OPTIONS,
    http_options,
    upstream_socket_mistakes,
)
from istio_config.envoy_api import (
    balancing_policy,
    content_type,
    is_ip,
    ring_mistake,
    table_mistake,
    unpacked,
)

_Cluster = cluster_pb2.Cluster
_CUSTOM = "envoy.extensions.clusters."
_FORWARD_PROXY = f"{_CUSTOM}dynamic_forward_proxy.v3.ClusterConfig"
_BALANCING_THEMSELVES = frozenset({_FORWARD_PROXY, f"{_CUSTOM}aggregate.v3.ClusterConfig"})
_BALANCED_EITHER_WAY = frozenset({f"{_CUSTOM}redis.v3.RedisClusterConfig"})
_PROVIDED = "envoy.extensions.load_balancing_policies.cluster_provided.v3.ClusterProvided"
_TCP = "envoy.extensions.upstreams.tcp.v3.TcpProtocolOptions"
_DNS = (_Cluster.STRICT_DNS, _Cluster.LOGICAL_DNS)


def cluster_mistakes(cluster: cluster_pb2.Cluster) -> Iterator[str]:
    """Yield what Envoy refuses in a cluster."""
    yield from broken_constraints(cluster)
    yield from _balancing_mistakes(cluster)
    yield from _provider_mistakes(cluster)
    yield from _endpoint_mistakes(cluster)
    yield from _protocol_mistakes(cluster)
    yield from upstream_socket_mistakes(cluster)
    if cluster.HasField("cluster_type") and not cluster.cluster_type.HasField("typed_config"):
        yield "cluster_type has no typed_config"
    if len(cluster.health_checks) > 1:
        # Several need names, and the API that patches are read by has no field for those.
        yield "a cluster has one health check at most"


def _balancing_mistakes(cluster: cluster_pb2.Cluster) -> Iterator[str]:
    if cluster.lb_policy == _Cluster.MAGLEV:
        wrong = table_mistake(cluster.maglev_lb_config)
        if wrong is not None:
            yield wrong
    if cluster.lb_policy == _Cluster.RING_HASH:
        wrong = ring_mistake(cluster.ring_hash_lb_config)
        if wrong is not None:
            yield wrong
    has_policy = cluster.HasField("load_balancing_policy")
    if cluster.lb_policy == _Cluster.LOAD_BALANCING_POLICY_CONFIG and not has_policy:
        yield "lb_policy LOAD_BALANCING_POLICY_CONFIG needs load_balancing_policy"
    if has_policy and cluster.HasField("lb_subset_config"):
        yield "load_balancing_policy excludes lb_subset_config"
    by_locality = cluster.common_lb_config.HasField("locality_weighted_lb_config")
    if cluster.lb_subset_config.locality_weight_aware and not by_locality:
        yield "lb_subset_config.locality_weight_aware needs locality_weighted_lb_config"


def _provider_mistakes(cluster: cluster_pb2.Cluster) -> Iterator[str]:
    """Look at who balances: a cluster of some types does it by itself, and of others can't."""
    by_name = cluster.lb_policy == _Cluster.CLUSTER_PROVIDED
    provided = by_name
    if cluster.HasField("load_balancing_policy"):
        provided = balancing_policy(cluster.load_balancing_policy) == _PROVIDED
    elif by_name and cluster.lb_subset_config.subset_selectors:
        yield "lb_policy CLUSTER_PROVIDED excludes lb_subset_config"
    if not cluster.HasField("cluster_type"):
        original = cluster.type == _Cluster.ORIGINAL_DST
        if original != provided or (original and not by_name):
            yield "lb_policy CLUSTER_PROVIDED goes with the type ORIGINAL_DST, and with that alone"
        return
    custom = content_type(cluster.cluster_type.typed_config)
    if custom in _BALANCED_EITHER_WAY or not custom.startswith(_CUSTOM):
        return
    if provided and custom not in _BALANCING_THEMSELVES:
        yield f"lb_policy CLUSTER_PROVIDED is not for a cluster of type {custom}"
    if not provided and custom in _BALANCING_THEMSELVES:
        yield f"a cluster of type {custom} needs lb_policy CLUSTER_PROVIDED"


def _endpoint_mistakes(cluster: cluster_pb2.Cluster) -> Iterator[str]:
    of_eds = not cluster.HasField("cluster_type") and cluster.type == _Cluster.EDS
    if of_eds and not cluster.eds_cluster_config.HasField("eds_config"):
        yield "a cluster of type EDS needs eds_cluster_config.eds_config"
    if not of_eds and cluster.HasField("eds_cluster_config"):
        yield "eds_cluster_config is for the type EDS alone"
    if cluster.HasField("cluster_type"):
        custom = content_type(cluster.cluster_type.typed_config)
        if custom and not custom.startswith(_CUSTOM):
            yield f"cluster_type has a {custom}, which is no type of clusters"
        return
    if cluster.type == _Cluster.ORIGINAL_DST and cluster.HasField("load_assignment"):
        yield "load_assignment is not for the type ORIGINAL_DST"
    localities = cluster.load_assignment.endpoints
    endpoints = [each for place in localities for each in place.lb_endpoints]
    if cluster.type == _Cluster.LOGICAL_DNS and (len(localities) != 1 or len(endpoints) != 1):
        yield "a cluster of type LOGICAL_DNS needs one endpoint"
    if cluster.type in (_Cluster.STATIC, *_DNS):
        for each in endpoints:
            yield from _address_mistakes(each, by_dns=cluster.type in _DNS)


def _address_mistakes(
    endpoint: endpoint_components_pb2.LbEndpoint, *, by_dns: bool
) -> Iterator[str]:
    where = endpoint.endpoint.address
    kind = where.WhichOneof("address")
    if kind is None:
        yield "an endpoint has no address"
    if kind != "socket_address":
        return
    socket = where.socket_address
    if socket.resolver_name:
        yield f"an endpoint has the resolver {socket.resolver_name}, which Envoy does not know"
    elif not by_dns and not is_ip(socket.address):
        yield f"an endpoint of a STATIC cluster needs an IP address, found {socket.address}"
    elif not by_dns and socket.named_port:
        yield f"an endpoint of a STATIC cluster needs a port's number, found {socket.named_port}"


def _protocol_mistakes(cluster: cluster_pb2.Cluster) -> Iterator[str]:
    by_type = cluster.typed_extension_protocol_options
    for key, value in by_type.items():
        found = content_type(value)
        if key != found and {key, found} & {HTTP_OPTIONS, _TCP}:
            yield f"typed_extension_protocol_options has a {found} under the name {key}"
    both = cluster.HasField("http_protocol_options") and cluster.HasField("http2_protocol_options")
    default = cluster.protocol_selection == _Cluster.USE_CONFIGURED_PROTOCOL
    if both and default and HTTP_OPTIONS not in by_type:
        yield "http_protocol_options exclude http2_protocol_options"
    asks_grpc = any(each.HasField("grpc_health_check") for each in cluster.health_checks)
    if asks_grpc and not _speaks_http2(cluster):
        yield "grpc_health_check needs HTTP/2"
    yield from _forward_proxy_mistakes(cluster)


def _speaks_http2(cluster: cluster_pb2.Cluster) -> bool:
    options = http_options(cluster)
    if options is None:
        return cluster.HasField("http2_protocol_options")
    if options.HasField("explicit_http_config"):
        return not options.explicit_http_config.HasField("http_protocol_options")
    return True


def _forward_proxy_mistakes(cluster: cluster_pb2.Cluster) -> Iterator[str]:
    """Look at a cluster that connects to the host of each request: it must verify its name."""
    found = cluster.cluster_type.typed_config
    custom = unpacked(found) if content_type(found) == _FORWARD_PROXY else None
    if custom is None or getattr(custom, "allow_insecure_cluster_options", False):
        return
    options = http_options(cluster)
    owner = cluster if options is None else options
    checks = owner.upstream_http_protocol_options
    if options is None and not cluster.HasField("upstream_http_protocol_options"):
        return
    if not (checks.auto_sni and checks.auto_san_validation):
        yield "a forward proxy needs auto_sni and auto_san_validation among its HTTP options"
