"""Every kind that this control plane reads, by its API group and its name in YAML."""

from collections.abc import Mapping
from typing import Any, TypeAlias

from istio_config.kinds.authorization_policy import AUTHORIZATION_POLICY
from istio_config.kinds.destination_rule import DESTINATION_RULE
from istio_config.kinds.envoy_filter import ENVOY_FILTER
from istio_config.kinds.gateway import GATEWAY
from istio_config.kinds.gateway_api import GATEWAY_API_KINDS
from istio_config.kinds.ingress import INGRESS, INGRESS_CLASS
from istio_config.kinds.kind import Kind
from istio_config.kinds.kubernetes import (
    CONFIG_MAP,
    ENDPOINT_SLICE,
    ENDPOINTS,
    KUBERNETES_SERVICE,
    NAMESPACE,
    NODE,
    POD,
    SECRET,
)
from istio_config.kinds.mesh_config import MESH_CONFIG
from istio_config.kinds.mesh_networks import MESH_NETWORKS
from istio_config.kinds.peer_authentication import PEER_AUTHENTICATION
from istio_config.kinds.proxy_config import PROXY_CONFIG
from istio_config.kinds.request_authentication import REQUEST_AUTHENTICATION
from istio_config.kinds.service_entry import SERVICE_ENTRY
from istio_config.kinds.sidecar import SIDECAR
from istio_config.kinds.telemetry import TELEMETRY
from istio_config.kinds.traffic_extension import EXTENSION_KINDS
from istio_config.kinds.virtual_service import VIRTUAL_SERVICE
from istio_config.kinds.workload_entry import WORKLOAD_ENTRY
from istio_config.kinds.workload_group import WORKLOAD_GROUP

AnyKind: TypeAlias = Kind[Any]
"""A kind, whatever its spec: its functions take what its own `spec` reads."""

_ALL: tuple[AnyKind, ...] = (
    AUTHORIZATION_POLICY,
    CONFIG_MAP,
    DESTINATION_RULE,
    ENDPOINTS,
    ENDPOINT_SLICE,
    ENVOY_FILTER,
    GATEWAY,
    INGRESS,
    INGRESS_CLASS,
    KUBERNETES_SERVICE,
    MESH_CONFIG,
    MESH_NETWORKS,
    NAMESPACE,
    NODE,
    PEER_AUTHENTICATION,
    POD,
    PROXY_CONFIG,
    REQUEST_AUTHENTICATION,
    SECRET,
    SERVICE_ENTRY,
    SIDECAR,
    TELEMETRY,
    VIRTUAL_SERVICE,
    WORKLOAD_ENTRY,
    *EXTENSION_KINDS,
    *GATEWAY_API_KINDS,
    WORKLOAD_GROUP,
)
KINDS: Mapping[tuple[str, str], AnyKind] = {(kind.group, kind.name): kind for kind in _ALL}
KIND_NAMES = tuple(sorted({kind.name for kind in _ALL}))


def find_kind(api_version: str, name: str) -> AnyKind | None:
    """Return the kind of a document, whatever its version.

    With an unknown group, it is the kind of this name if there is only one.
    """
    group = api_version.rpartition("/")[0]
    if (kind := KINDS.get((group, name))) is not None:
        return kind
    named = [each for each in _ALL if each.name == name]
    return named[0] if len(named) == 1 else None
