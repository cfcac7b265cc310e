"""Routes of VirtualServices for connections: by SNI on TLS ports, by address on other ports."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Protocol

from envoy_config.plan.l4._chains import Origin, TcpChain, distinct, prefixes, server_names
from envoy_config.plan.l4._targets import Targets
from istio_config.kinds.virtual_service import TcpMatch, TlsMatch, VirtualServiceSpec
from mesh_model import Labels, Port, Service

_MESH = "mesh"


class VirtualService(Protocol):
    """The part of a VirtualService that routes of connections are built from."""

    @property
    def namespace(self) -> str: ...
    @property
    def name(self) -> str: ...
    @property
    def hosts(self) -> tuple[str, ...]: ...
    @property
    def spec(self) -> VirtualServiceSpec: ...


class ConnectionRoutes:
    """The VirtualServices with routes for connections that a proxy knows, by host."""

    def __init__(
        self,
        virtual_services: Sequence[VirtualService] = (),
        *,
        namespace: str = "",
        labels: Labels = (),
    ) -> None:
        """namespace, labels: of the proxy, for matches on the source."""
        self.namespace = namespace
        self.labels: Mapping[str, str] = dict(labels)
        self._exact: dict[str, list[VirtualService]] = {}
        self._wildcards: list[VirtualService] = []
        for each in virtual_services:
            if not each.spec.tls and not each.spec.tcp:
                continue
            if any(host.startswith("*") for host in each.hosts):
                self._wildcards.append(each)
            for host in each.hosts:
                if not host.startswith("*"):
                    self._exact.setdefault(host, []).append(each)
        self._order = {id(each): index for index, each in enumerate(virtual_services)}

    def for_host(self, host: str) -> Sequence[VirtualService]:
        """Return the VirtualServices that have a service's host, in their order."""
        exact = self._exact.get(host, ())
        if not self._wildcards and not host.startswith("*"):
            return exact
        found = {id(each): each for each in exact}
        for each in self._wildcards:
            if any(_has(own, host) for own in each.hosts):
                found[id(each)] = each
        return sorted(found.values(), key=lambda each: self._order[id(each)])

    def applies(self, match: TlsMatch | TcpMatch, port: int) -> bool:
        """Return whether a match holds for the proxy's connections to a port."""
        return (
            (not match.gateways or _MESH in match.gateways)
            and (match.port is None or match.port == port)
            and match.source_namespace in ("", self.namespace)
            and match.source_labels.items() <= self.labels.items()
        )


NO_ROUTES = ConnectionRoutes()


def connection_chains(
    service: Service,
    port: Port,
    *,
    routes: ConnectionRoutes,
    targets: Targets,
    networks: tuple[str, ...] = (),
    is_shared: bool = False,
) -> tuple[TcpChain, ...]:
    """Return the chains of a service's port.

    networks: ranges of addresses that the service has. is_shared: other services may be at the
    same address and port, so that the service is recognised by SNI.
    """
    own = prefixes(networks)
    if port.protocol.is_tls:
        chains = tuple(distinct(_by_sni(service, port, routes, targets, own)))
        if chains:
            return chains
        hosts = (service.host, *(alias for _, alias in service.aliases))
        names = hosts if is_shared or own else ()
        target = targets.service(service, port)
        return (TcpChain(target=target, server_names=server_names(names), prefixes=own),)
    return tuple(distinct(_by_address(service, port, routes, targets, own)))


def _by_sni(
    service: Service,
    port: Port,
    routes: ConnectionRoutes,
    targets: Targets,
    own: tuple[str, ...],
) -> Iterator[TcpChain]:
    for each in routes.for_host(service.host):
        origin = Origin(each.namespace, each.name)
        for route in each.spec.tls:
            for match in route.match:
                if route.route and routes.applies(match, port.number):
                    yield TcpChain(
                        target=targets.routed(origin, route.route, port.number),
                        server_names=server_names(match.sni_hosts),
                        prefixes=prefixes(match.destination_subnets) or own,
                        origin=origin,
                    )


def _by_address(
    service: Service,
    port: Port,
    routes: ConnectionRoutes,
    targets: Targets,
    own: tuple[str, ...],
) -> Iterator[TcpChain]:
    taken: set[tuple[str, ...]] = set()
    for each in routes.for_host(service.host):
        origin = Origin(each.namespace, each.name)
        for route in each.spec.tcp:
            if not route.route:
                continue
            matches = route.match or (TcpMatch(),)
            for match in matches:
                if not routes.applies(match, port.number):
                    continue
                found = prefixes(match.destination_subnets) or own
                chain = TcpChain(
                    target=targets.routed(origin, route.route, port.number),
                    prefixes=found,
                    origin=origin,
                )
                yield chain
                if not match.destination_subnets:
                    return
                taken.add(found)
    if own not in taken:
        yield TcpChain(target=targets.service(service, port), prefixes=own)


def _has(pattern: str, host: str) -> bool:
    """Return whether a host of a VirtualService is, or holds, a service's host."""
    if not pattern.startswith("*"):
        return pattern == host
    rest = pattern[1:]
    return host.endswith(rest) and host != rest.lstrip(".")
