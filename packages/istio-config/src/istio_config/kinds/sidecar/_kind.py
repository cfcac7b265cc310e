"""The kind Sidecar."""

from istio_config.kinds.kind import Kind
from istio_config.kinds.sidecar._mistakes import mistakes, warnings
from istio_config.kinds.sidecar._spec import SidecarSpec

SIDECAR = Kind(
    name="Sidecar",
    group="networking.istio.io",
    versions=("v1", "v1beta1", "v1alpha3"),
    spec=SidecarSpec,
    validate=mistakes,
    warn=warnings,
)
"""The part of the mesh that workloads reach, and where their proxies listen."""
