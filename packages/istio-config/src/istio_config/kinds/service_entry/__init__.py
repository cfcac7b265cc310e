"""ServiceEntry as a kind: the mistakes and the doubtful choices in one."""

from istio_config.kinds.service_entry._kind import SERVICE_ENTRY
from istio_config.kinds.service_entry._spec import Location, Resolution, Selector, ServiceEntrySpec

__all__ = [
    "Selector",
    "Location",
    "Resolution",
    "SERVICE_ENTRY",
    "ServiceEntrySpec",
]
