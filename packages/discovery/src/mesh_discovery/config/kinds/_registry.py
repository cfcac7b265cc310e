"""Every kind that this control plane reads, by its API group and its name in YAML."""

from collections.abc import Mapping
from typing import Any, TypeAlias

from mesh_discovery.config.kinds._kind import Kind
from mesh_discovery.config.kinds._mesh_networks import MESH_NETWORKS
from mesh_discovery.config.kinds._peer_authentication import PEER_AUTHENTICATION
from mesh_discovery.config.kinds._workload_entry import WORKLOAD_ENTRY
from mesh_discovery.config.kinds._workload_group import WORKLOAD_GROUP
from mesh_discovery.config.kinds.authorization_policy._kind import AUTHORIZATION_POLICY
from mesh_discovery.config.kinds.destination_rule._kind import DESTINATION_RULE
from mesh_discovery.config.kinds.envoy_filter._kind import ENVOY_FILTER
from mesh_discovery.config.kinds.gateway._kind import GATEWAY
from mesh_discovery.config.kinds.gateway_api._kinds import GATEWAY_API_KINDS
from mesh_discovery.config.kinds.kubernetes._cluster_objects import NAMESPACE, NODE
from mesh_discovery.config.kinds.kubernetes._endpoint_slice import ENDPOINT_SLICE
from mesh_discovery.config.kinds.kubernetes._endpoints import ENDPOINTS
from mesh_discovery.config.kinds.kubernetes._pod import POD
from mesh_discovery.config.kinds.kubernetes._secret import SECRET
from mesh_discovery.config.kinds.kubernetes._service import KUBERNETES_SERVICE
from mesh_discovery.config.kinds.mesh_config._kind import MESH_CONFIG
from mesh_discovery.config.kinds.request_authentication._kind import REQUEST_AUTHENTICATION
from mesh_discovery.config.kinds.service_entry._kind import SERVICE_ENTRY
from mesh_discovery.config.kinds.sidecar._kind import SIDECAR
from mesh_discovery.config.kinds.telemetry._kind import TELEMETRY
from mesh_discovery.config.kinds.virtual_service._kind import VIRTUAL_SERVICE

AnyKind: TypeAlias = Kind[Any]
"""A kind, whatever its spec: its functions take what its own `spec` reads."""

_ALL: tuple[AnyKind, ...] = (
    AUTHORIZATION_POLICY,
    DESTINATION_RULE,
    ENDPOINTS,
    ENDPOINT_SLICE,
    ENVOY_FILTER,
    GATEWAY,
    KUBERNETES_SERVICE,
    MESH_CONFIG,
    MESH_NETWORKS,
    NAMESPACE,
    NODE,
    PEER_AUTHENTICATION,
    POD,
    REQUEST_AUTHENTICATION,
    SECRET,
    SERVICE_ENTRY,
    SIDECAR,
    TELEMETRY,
    VIRTUAL_SERVICE,
    WORKLOAD_ENTRY,
    *GATEWAY_API_KINDS,
    WORKLOAD_GROUP,
)
KINDS: Mapping[tuple[str, str], AnyKind] = {(kind.group, kind.name): kind for kind in _ALL}
KIND_NAMES = tuple(sorted({kind.name for kind in _ALL}))


def find_kind(api_version: str, name: str) -> AnyKind | None:
    """Return the kind of a document; where no other group has the name, whatever its version is."""
    group = api_version.rpartition("/")[0]
    if (kind := KINDS.get((group, name))) is not None:
        return kind
    named = [each for each in _ALL if each.name == name]
    return named[0] if len(named) == 1 else None
