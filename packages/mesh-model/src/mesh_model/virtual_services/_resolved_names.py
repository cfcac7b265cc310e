"""The names in a VirtualService: hosts and gateways completed by its namespace; destinations."""

from collections.abc import Iterable, Iterator

from msgspec.structs import replace

from istio_config.kinds.virtual_service import (
    Destination,
    HttpMatch,
    HttpRoute,
    HttpRouteDestination,
    RouteDestination,
    TcpMatch,
    TcpRoute,
    TlsMatch,
    TlsRoute,
    VirtualServiceSpec,
)
from mesh_model._hosts import full_host

MESH = "mesh"


def resolved_gateway(name: str, namespace: str) -> str:
    """Return a gateway as `namespace/name`; `mesh` stays."""
    if name == MESH:
        return name
    owner, slash, gateway = name.rpartition("/")
    if slash:
        return f"{namespace}/{gateway}" if owner == "." else name
    if "." in name:
        gateway, owner = name.split(".")[:2]
        return f"{owner}/{gateway}"
    return f"{namespace}/{name}"


def resolved_gateways(names: Iterable[str], namespace: str) -> tuple[str, ...]:
    """Return the gateways of a VirtualService, each once; without any it is for the mesh."""
    return tuple(dict.fromkeys(resolved_gateway(each, namespace) for each in names)) or (MESH,)


def resolved_spec(spec: VirtualServiceSpec, namespace: str, domain: str) -> VirtualServiceSpec:
    """Return a spec with all its names completed."""
    return _Names(namespace, domain).spec(spec)


class _Names:
    def __init__(self, namespace: str, domain: str) -> None:
        self._namespace = namespace
        self._domain = domain

    def spec(self, spec: VirtualServiceSpec) -> VirtualServiceSpec:
        return replace(
            spec,
            hosts=tuple(self._host(each) for each in spec.hosts),
            gateways=resolved_gateways(spec.gateways, self._namespace),
            http=tuple(map(self._http, spec.http)),
            tls=tuple(map(self._tls, spec.tls)),
            tcp=tuple(map(self._tcp, spec.tcp)),
        )

    def _host(self, host: str) -> str:
        return full_host(host, self._namespace, self._domain)

    def _http(self, route: HttpRoute) -> HttpRoute:
        return replace(
            route,
            match=tuple(self._http_match(each) for each in route.match),
            route=tuple(self._weighted(each) for each in route.route),
            mirror=self._destination(route.mirror),
            mirrors=tuple(
                replace(each, destination=self._destination(each.destination))
                for each in route.mirrors
            ),
        )

    def _tls(self, route: TlsRoute) -> TlsRoute:
        return replace(
            route,
            match=tuple(self._tls_match(each) for each in route.match),
            route=tuple(self._share(each) for each in route.route),
        )

    def _tcp(self, route: TcpRoute) -> TcpRoute:
        return replace(
            route,
            match=tuple(self._tcp_match(each) for each in route.match),
            route=tuple(self._share(each) for each in route.route),
        )

    def _http_match(self, match: HttpMatch) -> HttpMatch:
        return replace(match, gateways=self._gateways(match.gateways)) if match.gateways else match

    def _tls_match(self, match: TlsMatch) -> TlsMatch:
        return replace(match, gateways=self._gateways(match.gateways)) if match.gateways else match

    def _tcp_match(self, match: TcpMatch) -> TcpMatch:
        return replace(match, gateways=self._gateways(match.gateways)) if match.gateways else match

    def _gateways(self, names: tuple[str, ...]) -> tuple[str, ...]:
        return tuple(resolved_gateway(each, self._namespace) for each in names)

    def _weighted(self, each: HttpRouteDestination) -> HttpRouteDestination:
        return replace(each, destination=self._destination(each.destination))

    def _share(self, each: RouteDestination) -> RouteDestination:
        return replace(each, destination=self._destination(each.destination))

    def _destination(self, destination: Destination | None) -> Destination | None:
        if destination is None or (host := self._host(destination.host)) == destination.host:
            return destination
        return replace(destination, host=host)


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
