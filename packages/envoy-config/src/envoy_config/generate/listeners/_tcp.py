"""The filter that forwards connections as they are, and the chains that have it."""

from collections.abc import Iterable

from envoy.extensions.filters.network.mongo_proxy.v3 import mongo_proxy_pb2
from envoy.type.v3 import hash_policy_pb2

from envoy_config.generate._filters import network_filter
from envoy_config.generate._messages import (
    address_pb2,
    base_pb2,
    duration,
    listener_components_pb2,
    struct,
    tcp_proxy_pb2,
    wrappers_pb2,
)
from envoy_config.generate._passthrough import sni_lookup
from envoy_config.generate.telemetry._access_logs import connection_logs
from envoy_config.generate.telemetry._metrics import counts_opened
from envoy_config.plan._proxy_settings import NO_SETTINGS, ProxySettings
from envoy_config.plan.l4._chains import Origin, TcpChain, TcpTarget, to_cluster
from envoy_config.plan.telemetry._telemetry import side_of
from mesh_model import MeshModel


def tcp_proxy(
    target: TcpTarget,
    model: MeshModel,
    settings: ProxySettings = NO_SETTINGS,
    *,
    inbound: bool = False,
) -> listener_components_pb2.Filter:
    """Make the filter that forwards connections to a target; inbound: of those to the workload."""
    proxy = tcp_proxy_pb2.TcpProxy(
        stat_prefix=target.stat_prefix,
        access_log=connection_logs(model.mesh_config, settings, inbound=inbound),
    )
    if counts_opened(
        side_of(settings, model.mesh_config, inbound=inbound).metrics, inbound=inbound
    ):
        proxy.access_log_options.flush_access_log_on_connected = True
    if len(target.clusters) == 1:
        proxy.cluster = target.clusters[0].name
    else:
        weighted = tcp_proxy_pb2.TcpProxy.WeightedCluster
        proxy.weighted_clusters.CopyFrom(
            weighted(
                clusters=[
                    weighted.ClusterWeight(name=each.name, weight=each.weight)
                    for each in target.clusters
                ]
            )
        )
    idle = target.idle_timeout if target.idle_timeout is not None else settings.idle_timeout
    if idle is not None:
        proxy.idle_timeout.CopyFrom(duration(idle))
    if target.max_duration is not None:
        proxy.max_downstream_connection_duration.CopyFrom(duration(target.max_duration))
    if target.by_source_address:
        policy = hash_policy_pb2.HashPolicy
        proxy.hash_policy.append(policy(source_ip=policy.SourceIp()))
    if target.tunnel is not None:
        proxy.tunneling_config.hostname = f"{target.tunnel.host}:{target.tunnel.port}"
        proxy.tunneling_config.use_post = target.tunnel.post
    return network_filter("envoy.filters.network.tcp_proxy", proxy)


def cluster_proxy(
    cluster: str,
    model: MeshModel,
    settings: ProxySettings = NO_SETTINGS,
    *,
    inbound: bool = False,
) -> listener_components_pb2.Filter:
    """Make the filter that forwards connections to one cluster."""
    return tcp_proxy(to_cluster(cluster), model, settings, inbound=inbound)


def tcp_chain(
    chain: TcpChain,
    model: MeshModel,
    settings: ProxySettings = NO_SETTINGS,
    *,
    before: Iterable[listener_components_pb2.Filter] = (),
) -> listener_components_pb2.FilterChain:
    """Make a chain with its match; before: filters that stand before its own."""
    filters = [*before, *_filters(chain.target, model, settings)]
    filter_chain = listener_components_pb2.FilterChain(filters=filters)
    if not chain.takes_all:
        filter_chain.filter_chain_match.CopyFrom(
            listener_components_pb2.FilterChainMatch(
                server_names=chain.server_names,
                prefix_ranges=[_prefix_range(each) for each in chain.prefixes],
            )
        )
    if chain.origin is not None:
        filter_chain.metadata.CopyFrom(_stems_from(chain.origin))
    return filter_chain


def mongo_statistics(stat_prefix: str) -> listener_components_pb2.Filter:
    """Make the filter that counts the operations of Mongo; it lets other bytes pass."""
    return network_filter(
        "envoy.filters.network.mongo_proxy", mongo_proxy_pb2.MongoProxy(stat_prefix=stat_prefix)
    )


def _filters(
    target: TcpTarget, model: MeshModel, settings: ProxySettings
) -> list[listener_components_pb2.Filter]:
    found = [tcp_proxy(target, model, settings)]
    if target.is_mongo:
        found.insert(0, mongo_statistics(target.stat_prefix))
    if target.looked_up_port is not None:
        lookup = sni_lookup(target.looked_up_port)
        name = "envoy.filters.network.sni_dynamic_forward_proxy"
        found.insert(0, network_filter(name, lookup))
    return found


def _prefix_range(network: str) -> address_pb2.CidrRange:
    address, _, length = network.partition("/")
    return address_pb2.CidrRange(
        address_prefix=address, prefix_len=wrappers_pb2.UInt32Value(value=int(length))
    )


def _stems_from(origin: Origin) -> base_pb2.Metadata:
    path = (
        f"/apis/networking.istio.io/v1/namespaces/{origin.namespace}/virtual-service/{origin.name}"
    )
    return base_pb2.Metadata(filter_metadata={"istio": struct([("config", path)])})
