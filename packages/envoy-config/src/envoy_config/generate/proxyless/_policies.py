"""The part of a DestinationRule's policy that gRPC clients know, laid on a cluster.

They balance in turn or by a ring (gRFC A42), limit calls at a time (A32) and eject endpoints that
fail (A50). Their refusal of a cluster with another load balancer is why all others become
round robin.
"""

from envoy_config.generate._messages import cluster_pb2, duration, wrappers_pb2
from envoy_config.plan._traffic_policy import Policy

_Lb = cluster_pb2.Cluster.LbPolicy
_MOST = 2**32 - 1
_LARGEST_RING = 8 * 1024 * 1024
_DEFAULT_RING = 1024


def apply_policy(cluster: cluster_pb2.Cluster, policy: Policy) -> None:
    """Set load balancer, limit of calls and outlier detection of a gRPC client's cluster."""
    _balance(cluster, policy)
    limit = policy.http.http2_max_requests
    cluster.circuit_breakers.thresholds.add().max_requests.value = limit if limit > 0 else _MOST
    _detect_outliers(cluster, policy)


def _balance(cluster: cluster_pb2.Cluster, policy: Policy) -> None:
    hashing = policy.consistent_hash
    cluster.lb_policy = _Lb.ROUND_ROBIN
    if hashing is None or not hashing.http_header_name:
        return
    cluster.lb_policy = _Lb.RING_HASH
    ring = hashing.ring_hash
    size = ring.minimum_ring_size if ring is not None else hashing.minimum_ring_size
    cluster.ring_hash_lb_config.minimum_ring_size.value = min(size or _DEFAULT_RING, _LARGEST_RING)


def _detect_outliers(cluster: cluster_pb2.Cluster, policy: Policy) -> None:
    """Eject by the share of calls that fail: the one way that gRPC has for what Istio counts.

    gRPC knows no number of errors in a row; of endpoints that fail all calls, both eject each.
    """
    found = policy.outlier_detection
    if found is None:
        return
    detection = cluster.outlier_detection
    detection.enforcing_success_rate.CopyFrom(wrappers_pb2.UInt32Value(value=0))
    detection.enforcing_failure_percentage.value = 100
    detection.failure_percentage_threshold.value = 85
    detection.failure_percentage_minimum_hosts.value = 1
    detection.failure_percentage_request_volume.value = max(
        1, found.consecutive_5xx_errors if found.consecutive_5xx_errors is not None else 5
    )
    if found.interval is not None:
        detection.interval.CopyFrom(duration(found.interval))
    if found.base_ejection_time is not None:
        detection.base_ejection_time.CopyFrom(duration(found.base_ejection_time))
    if found.max_ejection_percent:
        detection.max_ejection_percent.value = found.max_ejection_percent
