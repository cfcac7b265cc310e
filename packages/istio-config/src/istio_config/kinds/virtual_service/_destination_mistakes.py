"""The rules of destinations and of their weights."""

from collections.abc import Iterator, Sequence

from istio_config.kinds.checks import is_dns_label, is_wildcard_host
from istio_config.kinds.virtual_service._destinations import (
    Destination,
    HttpRouteDestination,
    RouteDestination,
)
from mesh_configfile import FieldPath
from mesh_configfile.shapes import Finding

_MOST = 4294967295
"""Of the sum of weights, in Envoy."""


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


def weighted_mistakes(
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
    if total > _MOST:
        yield path, f"the weights add up to more than {_MOST}"
