"""ServiceEntry: how its documents are recognised, read and validated."""

from istio_config.kinds.kind import Kind
from istio_config.kinds.service_entry._mistakes import mistakes
from istio_config.kinds.service_entry._spec import ServiceEntrySpec
from istio_config.kinds.service_entry._warnings import warnings

SERVICE_ENTRY = Kind(
    name="ServiceEntry",
    group="networking.istio.io",
    versions=("v1", "v1beta1", "v1alpha3"),
    spec=ServiceEntrySpec,
    validate=mistakes,
    warn=warnings,
)
