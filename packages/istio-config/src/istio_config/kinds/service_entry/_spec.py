"""The fields of ServiceEntry: a service by its host names.

Source: Istio's API, networking/v1.
"""

from enum import StrEnum

import msgspec

from istio_config.kinds.fields import Labels, PortNumber, SpecFields, Text
from istio_config.kinds.protocol import Protocol
from istio_config.kinds.workload_entry import WorkloadEntrySpec


class Location(StrEnum):
    """Whether a service is part of the mesh."""

    MESH_EXTERNAL = "MESH_EXTERNAL"
    MESH_INTERNAL = "MESH_INTERNAL"


class Resolution(StrEnum):
    """How a service's name becomes addresses."""

    NONE = "NONE"
    STATIC = "STATIC"
    DNS = "DNS"
    DNS_ROUND_ROBIN = "DNS_ROUND_ROBIN"
    DYNAMIC_DNS = "DYNAMIC_DNS"


class ServicePort(SpecFields, frozen=True):
    """A port that clients name."""

    number: PortNumber
    name: Text
    protocol: str = ""
    target_port: PortNumber | None = None

    @property
    def known_protocol(self) -> Protocol:
        """The protocol that it declares; its name has no say."""
        return Protocol.declared(self.protocol)


class Selector(SpecFields, frozen=True):
    """Workloads by their labels (ServiceEntry's workloadSelector)."""

    labels: Labels = msgspec.field(default_factory=dict)


class ServiceEntrySpec(SpecFields, frozen=True):
    """A service by its host names."""

    hosts: tuple[Text, ...]
    addresses: tuple[Text, ...] = ()
    ports: tuple[ServicePort, ...] = ()
    location: Location = Location.MESH_EXTERNAL
    resolution: Resolution = Resolution.NONE
    endpoints: tuple[WorkloadEntrySpec, ...] = ()
    workload_selector: Selector | None = None
    export_to: tuple[Text, ...] = ()
    subject_alt_names: tuple[Text, ...] = ()

    @property
    def is_by_name(self) -> bool:
        """Whether its endpoints are looked up by DNS."""
        return self.resolution in (Resolution.DNS, Resolution.DNS_ROUND_ROBIN)
