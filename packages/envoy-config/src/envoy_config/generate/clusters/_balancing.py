"""Load balancing of clusters: how one of the endpoints is chosen."""

from envoy_config.generate._messages import (
    base_pb2,
    cluster_pb2,
    duration,
    percent_pb2,
    wrappers_pb2,
)
from istio_config.kinds.destination_rule import ConsistentHash, LoadBalancer, SimpleLb, Warmup

_Cluster = cluster_pb2.Cluster
_Lb = _Cluster.LbPolicy
_RING_SIZE = 1024
_WARMUP_PERCENT = 10.0


def balance(cluster: cluster_pb2.Cluster, balancer: LoadBalancer | None) -> None:
    """Set how a cluster chooses an endpoint; by fewest requests unless a rule says otherwise."""
    if balancer is None:
        cluster.lb_policy = _Lb.LEAST_REQUEST
        return
    if balancer.consistent_hash is not None:
        _hash(cluster, balancer.consistent_hash)
        return
    slow_start = _slow_start(balancer)
    match balancer.simple:
        case SimpleLb.RANDOM:
            cluster.lb_policy = _Lb.RANDOM
        case SimpleLb.ROUND_ROBIN:
            cluster.lb_policy = _Lb.ROUND_ROBIN
            if slow_start is not None:
                cluster.round_robin_lb_config.slow_start_config.CopyFrom(slow_start)
        case _:
            # Where there is no original destination, PASSTHROUGH can't mean more than that.
            cluster.lb_policy = _Lb.LEAST_REQUEST
            if slow_start is not None:
                cluster.least_request_lb_config.slow_start_config.CopyFrom(slow_start)


def _hash(cluster: cluster_pb2.Cluster, hashing: ConsistentHash) -> None:
    if hashing.maglev is not None:
        cluster.lb_policy = _Lb.MAGLEV
        if hashing.maglev.table_size is not None:
            cluster.maglev_lb_config.table_size.CopyFrom(
                wrappers_pb2.UInt64Value(value=hashing.maglev.table_size)
            )
        return
    cluster.lb_policy = _Lb.RING_HASH
    size = hashing.minimum_ring_size or _RING_SIZE
    if hashing.ring_hash is not None:
        size = hashing.ring_hash.minimum_ring_size
    if size:
        cluster.ring_hash_lb_config.minimum_ring_size.CopyFrom(wrappers_pb2.UInt64Value(value=size))


def _slow_start(balancer: LoadBalancer) -> "_Cluster.SlowStartConfig | None":
    warmup = balancer.warmup
    if warmup is None:
        if balancer.warmup_duration_secs is None:
            return None
        warmup = Warmup(duration=balancer.warmup_duration_secs)
    if warmup.duration is None:
        return None
    least = _WARMUP_PERCENT if warmup.minimum_percent is None else warmup.minimum_percent
    slow_start = _Cluster.SlowStartConfig(
        slow_start_window=duration(warmup.duration),
        min_weight_percent=percent_pb2.Percent(value=least),
    )
    if warmup.aggression is not None:
        slow_start.aggression.CopyFrom(
            base_pb2.RuntimeDouble(
                default_value=warmup.aggression, runtime_key="mesh.warmup.aggression"
            )
        )
    return slow_start
