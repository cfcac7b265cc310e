"""Every kind that this control plane reads, by its name in YAML."""

from collections.abc import Mapping
from typing import TypeAlias

from mesh_discovery.config.kinds._kind import Kind
from mesh_discovery.config.kinds._mesh_config import MESH_CONFIG, MeshConfigSpec
from mesh_discovery.config.kinds._peer_authentication import (
    PEER_AUTHENTICATION,
    PeerAuthenticationSpec,
)
from mesh_discovery.config.kinds._service_entry import SERVICE_ENTRY, ServiceEntrySpec
from mesh_discovery.config.kinds._workload_entry import WORKLOAD_ENTRY, WorkloadEntrySpec

Spec: TypeAlias = ServiceEntrySpec | WorkloadEntrySpec | PeerAuthenticationSpec | MeshConfigSpec
AnyKind: TypeAlias = (
    Kind[ServiceEntrySpec]
    | Kind[WorkloadEntrySpec]
    | Kind[PeerAuthenticationSpec]
    | Kind[MeshConfigSpec]
)

_ALL: tuple[AnyKind, ...] = (MESH_CONFIG, PEER_AUTHENTICATION, SERVICE_ENTRY, WORKLOAD_ENTRY)
KINDS: Mapping[str, AnyKind] = {kind.name: kind for kind in _ALL}
