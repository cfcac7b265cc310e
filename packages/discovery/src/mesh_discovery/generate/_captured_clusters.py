"""Clusters of captured proxies that lead to where connections were going: their original addresses.

Towards the workload itself, connections come from an address of their own: the rules that lead
connections to the proxy let those from it pass, and so does nothing come round again.
"""

from mesh_discovery.config.kinds._protocol import Protocol
from mesh_discovery.generate._clusters import new_cluster, speak_as_clients, speak_http2
from mesh_discovery.generate._messages import address_pb2, cluster_pb2
from mesh_discovery.model._model import MeshModel
from mesh_discovery.plan import _envoy_names as names
from mesh_discovery.plan.capture._inbound import CapturedPort
from mesh_discovery.plan.capture._listeners import IPV4, IPV6, IpVersions

_SOURCES = {IPV4: "127.0.0.6", IPV6: "::6"}


def captured_inbound_cluster(
    port: CapturedPort, ips: IpVersions, model: MeshModel
) -> cluster_pb2.Cluster:
    """Make the cluster of one port of the workload."""
    cluster = _where_it_was_going(names.inbound_cluster(port.number), model)
    _from_own_address(cluster, ips)
    if port.protocol.is_http2:
        speak_http2(cluster)
    elif port.protocol is Protocol.AUTO:
        speak_as_clients(cluster)
    return cluster


def inbound_passthrough(ips: IpVersions, model: MeshModel) -> cluster_pb2.Cluster:
    """Make the cluster of the workload's other ports."""
    cluster = _where_it_was_going(names.INBOUND_PASSTHROUGH, model)
    _from_own_address(cluster, ips)
    speak_as_clients(cluster)
    return cluster


def captured_passthrough(model: MeshModel) -> cluster_pb2.Cluster:
    """Make the cluster of hosts that the mesh does not know."""
    cluster = _where_it_was_going(names.PASSTHROUGH, model)
    speak_as_clients(cluster)
    return cluster


def _where_it_was_going(name: str, model: MeshModel) -> cluster_pb2.Cluster:
    cluster = new_cluster(name, cluster_pb2.Cluster.DiscoveryType.ORIGINAL_DST, model)
    cluster.lb_policy = cluster_pb2.Cluster.LbPolicy.CLUSTER_PROVIDED
    return cluster


def _from_own_address(cluster: cluster_pb2.Cluster, ips: IpVersions) -> None:
    source, *further = (_SOURCES[each] for each in ips.versions)
    bind = cluster.upstream_bind_config
    bind.source_address.CopyFrom(address_pb2.SocketAddress(address=source, port_value=0))
    for each in further:
        bind.extra_source_addresses.add().address.CopyFrom(
            address_pb2.SocketAddress(address=each, port_value=0)
        )
