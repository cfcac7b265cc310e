"""Clusters of the application beside a proxy, in plaintext, and of its other ports."""

from envoy_config.generate._header_case import keeps_case
from envoy_config.generate._istio_metadata import add_metric_fields, service_fields
from envoy_config.generate._messages import (
    address,
    address_pb2,
    cluster_pb2,
    endpoint_components_pb2,
    endpoint_pb2,
)
from envoy_config.generate.clusters._cluster import new_cluster
from envoy_config.generate.clusters._http_options import Speaks, set_http_options, speaks
from envoy_config.generate.clusters._pools import limit
from envoy_config.plan import _envoy_names as names
from envoy_config.plan._discovery import Discovery
from envoy_config.plan._inbound import Application
from envoy_config.plan._traffic_policy import NO_POLICY, Policy
from envoy_config.plan.redirected._inbound import RedirectedPort
from envoy_config.plan.redirected._listeners import IPV4, IPV6, LOOPBACKS, IpVersions
from istio_config.addresses import socket_path
from istio_config.kinds.protocol import Protocol
from mesh_model import MeshModel, Service

_SOURCES = {IPV4: "127.0.0.6", IPV6: "::6"}
"""Connections to the workload come from an address of their own: the rules that lead connections
to the proxy let those from it pass, and so nothing comes round again."""


def inbound_cluster(
    application: Application,
    model: MeshModel,
    policy: Policy = NO_POLICY,
    stat_name: str = "",
    *,
    service: Service | None = None,
) -> cluster_pb2.Cluster:
    """Make the cluster of an application where nothing is intercepted.

    policy: its connection pool counts, nothing else. stat_name: in statistics, if it has another.
    service: the one that leads there.
    """
    name = names.inbound_cluster(application.number)
    cluster = new_cluster(name, None, model, stat_name=stat_name)
    cluster.load_assignment.CopyFrom(_at(name, application.address, application.port))
    if service is not None:
        add_metric_fields(cluster.metadata, service_fields(service))
    _limit(cluster, application.protocol, policy, model)
    return cluster


def redirected_inbound_cluster(
    port: RedirectedPort,
    ips: IpVersions,
    model: MeshModel,
    policy: Policy = NO_POLICY,
    stat_name: str = "",
    *,
    service: Service | None = None,
) -> cluster_pb2.Cluster:
    """Make the cluster of one port of a workload whose connections are intercepted."""
    name = names.inbound_cluster(port.number)
    if port.app is None:
        cluster = new_cluster(name, Discovery.ORIGINAL_DST, model, stat_name=stat_name)
        cluster.lb_policy = cluster_pb2.Cluster.LbPolicy.CLUSTER_PROVIDED
    else:
        cluster = new_cluster(name, None, model, stat_name=stat_name)
        cluster.load_assignment.CopyFrom(_at(name, *port.app))
    if port.app is None or not _is_local(port.app[0]):
        bind_to_own_address(cluster, ips)
    if service is not None:
        add_metric_fields(cluster.metadata, service_fields(service))
    _limit(cluster, port.protocol, policy, model)
    return cluster


def _at(name: str, place: str, port: int) -> endpoint_pb2.ClusterLoadAssignment:
    """Make the one endpoint at an IP address and port, or at `unix:///path`."""
    path = socket_path(place)
    where = address(place, port)
    if path is not None:
        where = address_pb2.Address(pipe=address_pb2.Pipe(path=path))
    endpoint = endpoint_components_pb2.Endpoint(address=where)
    return endpoint_pb2.ClusterLoadAssignment(
        cluster_name=name,
        endpoints=[
            endpoint_components_pb2.LocalityLbEndpoints(
                lb_endpoints=[endpoint_components_pb2.LbEndpoint(endpoint=endpoint)]
            )
        ],
    )


def _is_local(place: str) -> bool:
    """Return whether connections to a place are never intercepted."""
    return socket_path(place) is not None or place in LOOPBACKS.values()


def bind_to_own_address(cluster: cluster_pb2.Cluster, ips: IpVersions) -> None:
    """Have connections come from the address that interception leaves alone."""
    source, *further = (_SOURCES[each] for each in ips.versions)
    bind = cluster.upstream_bind_config
    bind.source_address.CopyFrom(address_pb2.SocketAddress(address=source, port_value=0))
    for each in further:
        bind.extra_source_addresses.add().address.CopyFrom(
            address_pb2.SocketAddress(address=each, port_value=0)
        )


def _limit(
    cluster: cluster_pb2.Cluster, protocol: Protocol, policy: Policy, model: MeshModel
) -> None:
    pool = Policy(connection_pool=policy.connection_pool)
    limit(cluster, pool, model.mesh_config.tcp_keepalive)
    spoken = speaks(protocol, Policy(), mesh_upgrade=False)
    if pool.http.use_client_protocol and spoken is not Speaks.NOT_HTTP:
        spoken = Speaks.AS_CLIENT
    set_http_options(cluster, spoken, pool, keeps_case=keeps_case(model))
