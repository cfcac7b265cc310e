"""Where requests and connections are sent, and which share of them.

Source: Istio's API, networking/v1.
"""

from collections.abc import Iterator, Sequence

from istio_config.kinds.checks import is_dns_label, is_wildcard_host, percent_mistake
from istio_config.kinds.fields import PortNumber, SpecFields
from istio_config.kinds.virtual_service._headers import Headers
from mesh_configfile import FieldPath
from mesh_configfile.shapes import Finding


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


class Percent(SpecFields, frozen=True):
    """A percentage; Envoy's steps are 0.0001."""

    value: float = 0.0


class HttpRouteDestination(SpecFields, frozen=True):
    """A destination of requests, with its share of them."""

    destination: Destination | None = None
    weight: int = 0
    headers: Headers | None = None


class RouteDestination(SpecFields, frozen=True):
    """A destination of connections, with its share of them."""

    destination: Destination | None = None
    weight: int = 0


class MirrorPolicy(SpecFields, frozen=True):
    """A destination that gets a copy of requests."""

    destination: Destination | None = None
    percentage: Percent | None = None


_MOST_WEIGHT = 4294967295
"""Envoy refuses a route whose weights add up to more (WeightedCluster, a uint32)."""


def destination_mistakes(destination: Destination | None, path: FieldPath) -> Iterator[Finding]:
    """Yield what is wrong with a destination."""
    if destination is None:
        yield path, "is missing: give the host"
        return
    host = destination.host
    if not host:
        yield (*path, "host"), "is missing"
    elif host == "*" or not is_wildcard_host(host):
        yield (*path, "host"), f'"{host}" is not a host name'
    if destination.subset and not is_dns_label(destination.subset):
        yield (*path, "subset"), f'"{destination.subset}" is not the name of a subset'
    if destination.port is not None and destination.port.number is None:
        yield (*path, "port"), "needs a number"


def weighted_destination_mistakes(
    routes: Sequence[HttpRouteDestination | RouteDestination], path: FieldPath
) -> Iterator[Finding]:
    """Yield what is wrong with the destinations of a route, and with their weights."""
    for index, each in enumerate(routes):
        yield from destination_mistakes(each.destination, (*path, index, "destination"))
        if each.weight < 0:
            yield (*path, index, "weight"), f"must be at least 0, found {each.weight}"
    total = sum(max(0, each.weight) for each in routes)
    if len(routes) > 1 and not total:
        yield path, "the weights add up to 0: give at least one destination a weight"
    if total > _MOST_WEIGHT:
        yield path, f"the weights add up to more than {_MOST_WEIGHT}"


def percentage_mistakes(percentage: Percent | None, path: FieldPath) -> Iterator[Finding]:
    """Yield what is wrong with a percentage."""
    if percentage is not None and (wrong := percent_mistake(percentage.value)) is not None:
        yield (*path, "value"), wrong
