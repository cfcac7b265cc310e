"""The fields of a Sidecar.

Source: Istio's API, networking/v1.
"""

from enum import StrEnum
from typing import Annotated, TypeAlias

import msgspec

from istio_config.kinds.destination_rule import ConnectionPool
from istio_config.kinds.fields import PortNumber, SpecFields
from istio_config.kinds.gateway import ServerTlsSettings
from istio_config.kinds.protocol import Protocol
from istio_config.kinds.service_entry import Selector
from istio_config.kinds.virtual_service import Destination

SidecarPortNumber: TypeAlias = Annotated[int, msgspec.Meta(ge=0, le=65535)]
"""Zero is for listeners that are bound to a Unix socket."""

HTTP_PROXY = "HTTP_PROXY"
"""The protocol of a listener to which a workload speaks as to an HTTP proxy."""


class CaptureMode(StrEnum):
    """How connections come to a listener."""

    DEFAULT = "DEFAULT"
    """As to the proxy's other listeners."""
    IPTABLES = "IPTABLES"
    """They are redirected, and keep the address that they were going to."""
    NONE = "NONE"
    """The workload connects to the listener itself, which is bound to its port."""


class SidecarPort(SpecFields, frozen=True):
    """The port of a listener."""

    number: SidecarPortNumber = 0
    protocol: str = ""
    name: str = ""
    target_port: PortNumber | None = None
    """Deprecated, without effect."""

    @property
    def is_http_proxy(self) -> bool:
        """Whether a workload speaks to the listener as to an HTTP proxy."""
        return self.protocol.upper() == HTTP_PROXY

    @property
    def known_protocol(self) -> Protocol:
        """The protocol that the port declares; an HTTP proxy's is HTTP."""
        return Protocol.HTTP if self.is_http_proxy else Protocol.declared(self.protocol)


class IngressListener(SpecFields, frozen=True):
    """A port at which a workload is reached through its proxy."""

    port: SidecarPort | None = None
    bind: str = ""
    capture_mode: CaptureMode = CaptureMode.DEFAULT
    default_endpoint: str = ""
    """The place where the workload itself listens (`_default_endpoint`)."""
    tls: ServerTlsSettings | None = None
    connection_pool: ConnectionPool | None = None


class EgressListener(SpecFields, frozen=True):
    """Hosts that a workload reaches, by one port or by every port that they have."""

    port: SidecarPort | None = None
    bind: str = ""
    capture_mode: CaptureMode = CaptureMode.DEFAULT
    hosts: tuple[str, ...] = ()


class SidecarTrafficMode(StrEnum):
    """How calls of a workload to hosts that it does not know are treated."""

    REGISTRY_ONLY = "REGISTRY_ONLY"
    ALLOW_ANY = "ALLOW_ANY"
    ALLOW_ANY_DYNAMIC_DNS = "ALLOW_ANY_DYNAMIC_DNS"
    """Of a whole mesh only, as Istio has it."""


class SidecarTrafficPolicy(SpecFields, frozen=True):
    """The treatment of unknown hosts; it replaces the mesh's, also where it says nothing."""

    mode: SidecarTrafficMode = SidecarTrafficMode.REGISTRY_ONLY
    egress_proxy: Destination | None = None
    """The service to which ALLOW_ANY sends what is for unknown hosts."""


class SidecarSpec(SpecFields, frozen=True):
    """The view of a mesh that the proxies of a namespace, or of some workloads, have."""

    workload_selector: Selector | None = None
    ingress: tuple[IngressListener, ...] = ()
    egress: tuple[EgressListener, ...] = ()
    inbound_connection_pool: ConnectionPool | None = None
    outbound_traffic_policy: SidecarTrafficPolicy | None = None

    def inbound_pool(self, number: int) -> ConnectionPool | None:
        """Return the limits of what comes in on a port, if the object has any."""
        own = (
            each.connection_pool
            for each in self.ingress
            if each.port is not None and each.port.number == number
        )
        return next(own, None) or self.inbound_connection_pool
