"""The fields of destinations and of operations on headers, which several kinds of routes share.

Source: Istio's API, networking/v1.
"""

import msgspec

from istio_config.kinds.fields import PortNumber, SpecFields


class PortSelector(SpecFields, frozen=True):
    """A port of a destination."""

    number: PortNumber | None = None


class Destination(SpecFields, frozen=True):
    """A service, or a subset of its endpoints, to which traffic is sent."""

    host: str = ""
    subset: str = ""
    port: PortSelector | None = None

    @property
    def port_number(self) -> int | None:
        """The port, where one is named."""
        return self.port.number if self.port is not None else None


class HeaderOperations(SpecFields, frozen=True):
    """Changes of headers."""

    set: dict[str, str] = msgspec.field(default_factory=dict)
    add: dict[str, str] = msgspec.field(default_factory=dict)
    remove: tuple[str, ...] = ()


class Headers(SpecFields, frozen=True):
    """Changes of the headers of requests and of responses."""

    request: HeaderOperations | None = None
    response: HeaderOperations | None = None


class HttpRouteDestination(SpecFields, frozen=True):
    """A destination of requests, with its share of them."""

    destination: Destination | None = None
    weight: int = 0
    headers: Headers | None = None


class RouteDestination(SpecFields, frozen=True):
    """A destination of connections, with its share of them."""

    destination: Destination | None = None
    weight: int = 0


class Percent(SpecFields, frozen=True):
    """A percentage, in steps of 0.0001."""

    value: float = 0.0
