"""Clusters that proxies have whatever services there are."""

from envoy_config.generate._header_case import keeps_case
from envoy_config.generate._istio_metadata import add_metric_fields
from envoy_config.generate._messages import cluster_pb2
from envoy_config.generate._passthrough import forward_by_host
from envoy_config.generate.clusters._cluster import new_cluster
from envoy_config.generate.clusters._http_options import Speaks, set_http_options
from envoy_config.generate.clusters._inbound import bind_to_own_address
from envoy_config.plan import _envoy_names as names
from envoy_config.plan._discovery import Discovery
from envoy_config.plan._traffic_policy import Policy
from envoy_config.plan.redirected._listeners import IpVersions
from istio_config.kinds.destination_rule import ConnectionPool, HttpSettings
from mesh_configfile import Duration
from mesh_model import MeshModel

_FIVE_MINUTES_IDLE = Policy(
    connection_pool=ConnectionPool(http=HttpSettings(idle_timeout=Duration(300)))
)


def black_hole(model: MeshModel) -> cluster_pb2.Cluster:
    """Make the cluster without endpoints, for requests that must fail."""
    return _new_cluster(names.BLACK_HOLE, None, model)


def passthrough(model: MeshModel) -> cluster_pb2.Cluster:
    """Make the cluster of hosts that the mesh does not know, by the host of each request."""
    cluster = _new_cluster(names.PASSTHROUGH, Discovery.FORWARD_PROXY, model)
    forward_by_host(cluster)
    return cluster


def redirected_passthrough(model: MeshModel) -> cluster_pb2.Cluster:
    """Make the cluster of hosts that the mesh does not know, where connections are intercepted."""
    return _where_it_was_going(names.PASSTHROUGH, model)


def dynamic_dns(model: MeshModel) -> cluster_pb2.Cluster:
    """Make the cluster of intercepted requests that go where the names of their hosts lead."""
    cluster = _new_cluster(names.DYNAMIC_DNS, Discovery.FORWARD_PROXY, model)
    forward_by_host(cluster)
    return cluster


def inbound_passthrough(ips: IpVersions, model: MeshModel) -> cluster_pb2.Cluster:
    """Make the cluster of the workload's ports that are no service's."""
    cluster = _where_it_was_going(names.INBOUND_PASSTHROUGH, model)
    bind_to_own_address(cluster, ips)
    return cluster


def _new_cluster(name: str, kind: Discovery | None, model: MeshModel) -> cluster_pb2.Cluster:
    cluster = new_cluster(name, kind, model)
    # As in Istio, metrics have the name of the cluster where there is no service.
    add_metric_fields(cluster.metadata, [("name", name)])
    return cluster


def _where_it_was_going(name: str, model: MeshModel) -> cluster_pb2.Cluster:
    cluster = _new_cluster(name, Discovery.ORIGINAL_DST, model)
    cluster.lb_policy = cluster_pb2.Cluster.LbPolicy.CLUSTER_PROVIDED
    set_http_options(cluster, Speaks.AS_CLIENT, _FIVE_MINUTES_IDLE, keeps_case=keeps_case(model))
    return cluster
