"""The ports of a Sidecar's listeners, of both directions."""

from collections.abc import Iterator
from enum import StrEnum
from typing import Annotated, TypeAlias

import msgspec

from istio_config.kinds.checks import is_dns_label, port_name_warning
from istio_config.kinds.fields import PortNumber, SpecFields
from istio_config.kinds.protocol import PROTOCOL_NAMES, Protocol
from mesh_configfile.shapes import Finding

SidecarPortNumber: TypeAlias = Annotated[int, msgspec.Meta(ge=0, le=65535)]
"""Zero is for listeners that are bound to a Unix socket."""
HTTP_PROXY = "HTTP_PROXY"
"""The protocol of a listener to which a workload speaks as to an HTTP proxy."""


class CaptureMode(StrEnum):
    """How connections come to a listener."""

    DEFAULT = "DEFAULT"
    """As to the other listeners of the proxy."""
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


def port_mistakes(port: SidecarPort) -> Iterator[Finding]:
    """Yield what is wrong with the name and the protocol of a port; paths start below it."""
    if port.name and not is_dns_label(port.name):
        yield (
            ("name",),
            f'"{port.name}" can\'t name a port: up to 63 letters, digits and inner hyphens can',
        )
    if port.protocol and not port.is_http_proxy and Protocol.parse(port.protocol) is None:
        known = ", ".join((*PROTOCOL_NAMES, HTTP_PROXY))
        yield ("protocol",), f'unknown protocol "{port.protocol}"; known: {known}'


def port_warnings(port: SidecarPort) -> Iterator[Finding]:
    """Yield that a port declares no protocol; paths start below its listener."""
    undeclared = port_name_warning(port.protocol, port.name)
    if undeclared is not None:
        yield ("port", "name"), undeclared
