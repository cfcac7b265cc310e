"""Leaves the protocols that TLS offers as a cluster has them, for servers outside the mesh.

Other requests offer the mesh's own, which a filter of the listener sets.
"""

from envoy_config.generate._messages import packed, route_components_pb2
from envoy_config.plan import _envoy_names as names


def keep_own_alpn(
    made: route_components_pb2.Route | route_components_pb2.WeightedCluster.ClusterWeight,
) -> None:
    """Switch the filter off for the requests of a route, or of one of its clusters."""
    made.typed_per_filter_config[names.MESH_ALPN_FILTER].CopyFrom(
        packed(route_components_pb2.FilterConfig(disabled=True))
    )
