"""The part that all clusters have alike."""

import functools

from envoy_config.generate._messages import (
    circuit_breaker_pb2,
    cluster_pb2,
    duration,
    percent_pb2,
    wrappers_pb2,
)
from envoy_config.plan._discovery import Discovery
from mesh_model import MeshModel

Type = cluster_pb2.Cluster.DiscoveryType
UNLIMITED = 2**32 - 1
_TYPES = {
    Discovery.EDS: Type.EDS,
    Discovery.STRICT_DNS: Type.STRICT_DNS,
    Discovery.LOGICAL_DNS: Type.LOGICAL_DNS,
    Discovery.ORIGINAL_DST: Type.ORIGINAL_DST,
}


def new_cluster(
    name: str,
    kind: "Discovery | None",
    model: MeshModel,
    *,
    stat_name: str = "",
) -> cluster_pb2.Cluster:
    """Make a cluster without limits; kind None: it is STATIC.

    stat_name: in Envoy's statistics, if it is not the cluster's name.
    """
    cluster = cluster_pb2.Cluster()
    cluster.CopyFrom(_unlimited(model.mesh_config.connect_timeout))
    cluster.name = name
    # In Envoy's statistics a name ends where the `;` stands, for names have dots in them: the
    # pattern that proxies' bootstraps find the tag `cluster_name` by looks for it.
    cluster.alt_stat_name = f"{stat_name or name};"
    if kind is None:
        cluster.type = Type.STATIC
    elif (of := _TYPES.get(kind)) is not None:
        cluster.type = of
    return cluster


@functools.lru_cache(maxsize=10)
def _unlimited(connect_timeout: float) -> cluster_pb2.Cluster:
    """Make what clusters are copied from, which takes a fraction of making each."""
    return cluster_pb2.Cluster(
        connect_timeout=duration(connect_timeout),
        circuit_breakers=circuit_breaker_pb2.CircuitBreakers(
            thresholds=[
                circuit_breaker_pb2.CircuitBreakers.Thresholds(
                    max_connections=number(UNLIMITED),
                    max_pending_requests=number(UNLIMITED),
                    max_requests=number(UNLIMITED),
                    max_retries=number(UNLIMITED),
                    track_remaining=True,
                )
            ]
        ),
        common_lb_config=cluster_pb2.Cluster.CommonLbConfig(
            # Endpoints that are not healthy are sent too, and must not be used for want of others.
            healthy_panic_threshold=percent_pb2.Percent()
        ),
    )


def number(value: int) -> wrappers_pb2.UInt32Value:
    """Make a number that may be left out."""
    return wrappers_pb2.UInt32Value(value=value)
