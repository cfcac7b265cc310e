"""ServiceEntry: how its documents are recognised, read and validated."""

from mesh_discovery.config.kinds._kind import Kind
from mesh_discovery.config.kinds._service_entry import ServiceEntrySpec
from mesh_discovery.config.kinds.service_entry._mistakes import mistakes
from mesh_discovery.config.kinds.service_entry._warnings import warnings

SERVICE_ENTRY = Kind(
    name="ServiceEntry",
    group="networking.istio.io",
    versions=("v1", "v1beta1", "v1alpha3"),
    spec=ServiceEntrySpec,
    validate=mistakes,
    warn=warnings,
)
