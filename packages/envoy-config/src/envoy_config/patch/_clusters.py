"""Patches of clusters."""

from collections.abc import Iterator

from envoy_config.generate._messages import base_pb2, cluster_pb2
from envoy_config.patch._failures import PatchError
from envoy_config.patch._merging import merge, merge_filter
from envoy_config.plan import _envoy_names as names
from envoy_config.plan.policies._patches import Patch
from istio_config.kinds.envoy_filter import ClusterMatch, Context, Operation

Cluster = cluster_pb2.Cluster


def side_of_cluster(name: str, *, at_gateway: bool) -> Context:
    """Return the side of a cluster: of a gateway, or of a sidecar's calls in or out."""
    if at_gateway:
        return Context.GATEWAY
    is_inbound = name.startswith("inbound|") or name == names.INBOUND_PASSTHROUGH
    return Context.SIDECAR_INBOUND if is_inbound else Context.SIDECAR_OUTBOUND


def may_match_cluster(patch: Patch, name: str) -> bool:
    """Tell by its name alone whether a patch may be for a cluster."""
    wanted = patch.match.cluster
    if wanted is None:
        return True
    if wanted.name:
        return wanted.name == name
    direction, port, subset, host = _parts(name)
    if wanted.subset and wanted.subset != subset:
        return False
    if wanted.port_number is not None and wanted.port_number != port:
        return False
    # The services of inbound clusters are in their metadata.
    return not wanted.service or direction == "inbound" or wanted.service == host


def patch_cluster(cluster: Cluster, patch: Patch) -> bool | None:
    """Apply a patch to a cluster; tell whether it was for it, None if it removes it.

    Raises `PatchError`.
    """
    if not _is_matched(cluster, patch.match.cluster):
        return False
    if patch.operation is Operation.REMOVE:
        return None
    value = patch.value
    if not patch.operation.is_merge or not isinstance(value, Cluster):
        return False
    replaces = patch.operation is Operation.MERGE_AND_REPLACE_LIST
    rest = Cluster()
    rest.CopyFrom(value)
    socket = _socket_for(cluster, value)
    if socket is not None:
        merge_filter(socket, value.transport_socket, replaces_lists=replaces)
        rest.ClearField("transport_socket")
    merge(cluster, rest, replaces_lists=replaces)
    return True


def _socket_for(cluster: Cluster, value: Cluster) -> base_pb2.TransportSocket | None:
    """Return the transport socket of a cluster that a patch's is merged into, if it has one."""
    if not value.HasField("transport_socket"):
        return None
    existing = [each.transport_socket for each in cluster.transport_socket_matches]
    if not existing and cluster.HasField("transport_socket"):
        existing = [cluster.transport_socket]
    if not existing:
        return None
    wanted = value.transport_socket.name
    for each in existing:
        if each.name == wanted:
            return each
    known = ", ".join(each.name for each in existing)
    raise PatchError(f"has the transport socket {wanted}, and the cluster has {known}")


def _is_matched(cluster: Cluster, wanted: ClusterMatch | None) -> bool:
    if wanted is None:
        return True
    if wanted.name:
        return wanted.name == cluster.name
    direction, port, subset, host = _parts(cluster.name)
    if wanted.subset and wanted.subset != subset:
        return False
    if wanted.port_number is not None and wanted.port_number != port:
        return False
    hosts = set(_served(cluster)) if direction == "inbound" else set()
    return not wanted.service or wanted.service in (hosts or {host})


def _parts(name: str) -> tuple[str, int, str, str]:
    """Take the name of a cluster apart: direction, port, subset and host."""
    parts = name.split("|", 3)
    if len(parts) == 4 and parts[1].isdecimal():
        return parts[0], int(parts[1]), parts[2], parts[3]
    by_sni = names.parse_sni_cluster(name)
    return ("outbound", by_sni.port, by_sni.subset, by_sni.host) if by_sni else ("", 0, "", "")


def _served(cluster: Cluster) -> Iterator[str]:
    """Yield the hosts of the services that an inbound cluster is for."""
    metadata = cluster.metadata.filter_metadata
    if "istio" not in metadata:
        return
    for each in metadata["istio"].fields["services"].list_value.values:
        yield each.struct_value.fields["host"].string_value
