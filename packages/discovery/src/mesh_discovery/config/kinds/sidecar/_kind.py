"""The kind Sidecar."""

from mesh_discovery.config.kinds._kind import Kind
from mesh_discovery.config.kinds.sidecar._mistakes import mistakes, warnings
from mesh_discovery.config.kinds.sidecar._spec import SidecarSpec

SIDECAR = Kind(
    name="Sidecar",
    group="networking.istio.io",
    versions=("v1", "v1beta1", "v1alpha3"),
    spec=SidecarSpec,
    validate=mistakes,
    warn=warnings,
)
"""The part of the mesh that workloads reach, and where their proxies listen."""
