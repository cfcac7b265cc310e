"""The services that the routes of a VirtualService lead to."""

from collections.abc import Iterator, Mapping

from istio_config.kinds.virtual_service import Destination, HttpRoute, TcpRoute, TlsRoute
from mesh_model.virtual_services._http_destinations import destinations_of_route
from mesh_model.virtual_services._virtual_services import VirtualService

Ports = frozenset[int] | None
"""Numbers of ports; None: all of a service."""


def destinations(virtual_service: VirtualService, namespace: str) -> Mapping[str, Ports]:
    """Return hosts with the ports to which routes lead that proxies of a namespace can take."""
    found: dict[str, set[int] | None] = {}
    for each in _all(virtual_service, namespace):
        host = each.host.lower()
        number = each.port_number
        ports = found.setdefault(host, set())
        if number is None:
            found[host] = None
        elif ports is not None:
            ports.add(number)
    return {host: None if ports is None else frozenset(ports) for host, ports in found.items()}


def _all(virtual_service: VirtualService, namespace: str) -> Iterator[Destination]:
    spec = virtual_service.spec
    for http in spec.http:
        if _is_for(http, namespace):
            yield from destinations_of_route(http)
    connections: tuple[TlsRoute | TcpRoute, ...] = (*spec.tls, *spec.tcp)
    for route in connections:
        if _is_for(route, namespace):
            yield from (each.destination for each in route.route if each.destination is not None)


def _is_for(route: HttpRoute | TlsRoute | TcpRoute, namespace: str) -> bool:
    return not route.match or any(
        match.source_namespace in ("", namespace) for match in route.match
    )
