"""The destinations of a VirtualService's HTTP routes, mirrors among them."""

from collections.abc import Iterator

from istio_config.kinds.virtual_service import Destination, HttpRoute, VirtualServiceSpec


def http_destinations(spec: VirtualServiceSpec) -> Iterator[Destination]:
    """Yield the destinations in the order of the routes; some may stand there twice."""
    for route in spec.http:
        yield from destinations_of_route(route)


def destinations_of_route(route: HttpRoute) -> Iterator[Destination]:
    """Yield the destinations of one route: those of the requests, then those of copies of them."""
    for each in route.route:
        if each.destination is not None:
            yield each.destination
    if route.mirror is not None:
        yield route.mirror
    for mirror in route.mirrors:
        if mirror.destination is not None:
            yield mirror.destination
