"""Finds what Envoy refuses in patched clusters, beside the constraints of its API.

Seen with Envoy 1.40.
"""

from collections.abc import Iterator

from mesh_discovery.generate._messages import cluster_pb2
from mesh_discovery.patch._acceptance import broken_constraints

_Cluster = cluster_pb2.Cluster
_WITH_ENDPOINTS = (_Cluster.STATIC, _Cluster.STRICT_DNS, _Cluster.LOGICAL_DNS)


def cluster_mistakes(cluster: cluster_pb2.Cluster) -> Iterator[str]:
    """Yield what Envoy refuses in a cluster."""
    yield from broken_constraints(cluster)
    yield from _balancing_mistakes(cluster)
    if cluster.HasField("cluster_type"):
        if not cluster.cluster_type.HasField("typed_config"):
            yield "cluster_type has no typed_config"
        return
    original = cluster.type == _Cluster.ORIGINAL_DST
    provided = cluster.lb_policy == _Cluster.CLUSTER_PROVIDED
    if original != provided and not cluster.HasField("load_balancing_policy"):
        yield "lb_policy CLUSTER_PROVIDED goes with the type ORIGINAL_DST, and with that alone"
    if provided and cluster.HasField("lb_subset_config"):
        yield "lb_policy CLUSTER_PROVIDED excludes lb_subset_config"
    if cluster.type == _Cluster.EDS and not cluster.eds_cluster_config.HasField("eds_config"):
        yield "a cluster of type EDS needs eds_cluster_config.eds_config"
    if cluster.type != _Cluster.EDS and cluster.HasField("eds_cluster_config"):
        yield "eds_cluster_config is for the type EDS alone"
    if cluster.type not in _WITH_ENDPOINTS and cluster.HasField("load_assignment"):
        yield "load_assignment is for the types STATIC, STRICT_DNS and LOGICAL_DNS alone"
    if cluster.type in _WITH_ENDPOINTS and not cluster.HasField("load_assignment"):
        yield "a cluster of this type needs load_assignment"
    endpoints = [each for place in cluster.load_assignment.endpoints for each in place.lb_endpoints]
    if cluster.type == _Cluster.LOGICAL_DNS and len(endpoints) != 1:
        yield "a cluster of type LOGICAL_DNS needs one endpoint"


def _balancing_mistakes(cluster: cluster_pb2.Cluster) -> Iterator[str]:
    size = cluster.maglev_lb_config.table_size.value
    divided = any(size % each == 0 for each in range(2, int(size**0.5) + 1))
    if cluster.lb_policy == _Cluster.MAGLEV and divided:
        yield f"the table size of maglev must be a prime number, found {size}"
    ring = cluster.ring_hash_lb_config
    most = ring.maximum_ring_size.value if ring.HasField("maximum_ring_size") else 8 * 1024 * 1024
    least = ring.minimum_ring_size.value if ring.HasField("minimum_ring_size") else 1024
    if cluster.lb_policy == _Cluster.RING_HASH and least > most:
        yield f"the ring has {least} entries at least and {most} at most"
