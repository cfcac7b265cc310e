"""Plans the outbound listeners of captured proxies: which services are at which address and port.

Connections come to the listener of the address and port that they were going to, else to that of
the port alone. HTTP services share the latter. Others have their own addresses, if any: several
TCP services at one address and port can be told apart by SNI or range only, and the older wins.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from mesh_discovery._addresses import is_ip
from mesh_discovery.config.kinds._protocol import Protocol
from mesh_discovery.model._services import Port, Service
from mesh_discovery.plan._outbound import Conflict, named_addresses
from mesh_discovery.plan._proxy import NO_DNS, Naming
from mesh_discovery.plan.capture._listeners import CapturedListener, Chain, HttpChain, IpVersions
from mesh_discovery.plan.capture._places import Kind, Place
from mesh_discovery.plan.l4._chains import TcpTarget
from mesh_discovery.plan.l4._routes import ConnectionRoutes, connection_chains
from mesh_discovery.plan.l4._targets import Targets

_OWN_PORTS = frozenset({15021, 15090})
"""Ports of health and metrics, which every proxy has."""

Where = tuple[str, int]


class Egress(NamedTuple):
    """Services that are reached together, with the routes that hold for them."""

    services: Iterable[Service]
    routes: ConnectionRoutes
    targets: Targets


@dataclass(frozen=True, slots=True, kw_only=True)
class CapturedOutbound:
    """The outbound listeners of captured proxies that know the same."""

    listeners: tuple[CapturedListener, ...] = ()
    of_endpoints: Mapping[str, tuple[CapturedListener, ...]] = field(default_factory=dict)
    """Listeners for the endpoints of headless services, by address: not for proxies there."""
    conflicts: tuple[Conflict, ...] = ()


class _Wanted(NamedTuple):
    """A listener that a service wants."""

    where: Where
    kind: Kind
    chains: tuple[Chain, ...]
    further: tuple[str, ...] = ()
    is_endpoint: bool = False


def plan_captured_outbound(
    egress: Iterable[Egress],
    *,
    ips: IpVersions,
    rest: TcpTarget,
    naming: Naming = NO_DNS,
    own_ports: tuple[int, ...] = (),
) -> CapturedOutbound:
    """Decide what is listened for.

    rest: the target of connections that no service takes. own_ports: those to which connections
    are led.
    """
    plan = _Plan(ips, _OWN_PORTS.union(own_ports))
    for each in egress:
        for service in each.services:
            for port in service.ports:
                if port.protocol is Protocol.UDP:
                    continue
                if port.protocol.is_http:
                    plan.add_http(service, port)
                    continue
                for wanted in _wanted(service, port, each, ips, naming):
                    plan.add(service, port, wanted)
    return plan.finished(rest)


class _Plan:
    """The places that are taken while services are gone through, the oldest first."""

    def __init__(self, ips: IpVersions, own_ports: frozenset[int]) -> None:
        """own_ports: where no listener can stand for all addresses."""
        self._ips = ips
        self._own_ports = own_ports
        self._places: dict[Where, Place] = {}
        self._further: dict[Where, tuple[str, ...]] = {}
        self._aliases: set[Where] = set()
        self._of_endpoints: set[str] = set()
        self._http: set[int] = set()
        self._conflicts: dict[Conflict, None] = {}

    def add_http(self, service: Service, port: Port) -> None:
        """Add a service's HTTP port; one listener is for all of them."""
        if port.number in self._http:
            return
        where = self._ips.wildcard, port.number
        is_grpc_web = port.protocol is Protocol.GRPC_WEB
        chain = HttpChain(str(port.number), detected=True, is_grpc_web=is_grpc_web)
        further = self._ips.further_wildcards
        if self.add(service, port, _Wanted(where, Kind.AUTO, (chain,), further)):
            self._http.add(port.number)

    def add(self, service: Service, port: Port, wanted: _Wanted) -> bool:
        """Add a listener, or the chains of it that are free; tells whether all were."""
        place = self._places.get(wanted.where)
        bind, number = wanted.where
        is_taken = wanted.where in self._aliases or (
            bind == self._ips.wildcard and number in self._own_ports
        )
        if is_taken:
            fits = False
        elif place is None:
            self._places[wanted.where] = Place(wanted.kind, port.protocol, wanted.chains)
            fits = self._add_further(wanted)
            if wanted.is_endpoint:
                self._of_endpoints.add(bind)
        else:
            fits = place.merge(wanted.kind, port.protocol, wanted.chains)
        if not fits:
            self._conflicts[Conflict(bind=bind, port=number, host=service.host)] = None
        return fits

    def _add_further(self, wanted: _Wanted) -> bool:
        port = wanted.where[1]
        free = [
            (address, port)
            for address in wanted.further
            if (address, port) not in self._places and (address, port) not in self._aliases
        ]
        self._aliases.update(free)
        self._further[wanted.where] = tuple(address for address, _ in free)
        return len(free) == len(wanted.further)

    def finished(self, rest: TcpTarget) -> CapturedOutbound:
        """Return what was planned."""
        of_endpoints: dict[str, list[CapturedListener]] = {}
        listeners = []
        for where in sorted(self._places):
            bind, port = where
            made = CapturedListener(
                bind=bind,
                port=port,
                chains=self._places[where].chains,
                rest=rest,
                further=self._further.get(where, ()),
            )
            if bind in self._of_endpoints:
                of_endpoints.setdefault(bind, []).append(made)
            else:
                listeners.append(made)
        return CapturedOutbound(
            listeners=tuple(listeners),
            of_endpoints={key: tuple(values) for key, values in of_endpoints.items()},
            conflicts=tuple(self._conflicts),
        )


def _wanted(
    service: Service, port: Port, egress: Egress, ips: IpVersions, naming: Naming
) -> Iterator[_Wanted]:
    """Yield the listeners of a port that is not HTTP."""
    kind = Kind.AUTO if port.protocol is Protocol.AUTO else Kind.TCP

    def wanted(
        bind: str,
        further: tuple[str, ...] = (),
        *,
        networks: tuple[str, ...] = (),
        is_endpoint: bool = False,
    ) -> _Wanted:
        is_shared = bind == ips.wildcard
        chains: tuple[Chain, ...] = connection_chains(
            service,
            port,
            routes=egress.routes,
            targets=egress.targets,
            networks=networks,
            is_shared=is_shared,
        )
        if kind is Kind.AUTO:
            route = str(port.number) if is_shared else f"{service.host}:{port.number}"
            chains = (HttpChain(route, detected=True), *chains)
        return _Wanted((bind, port.number), kind, chains, further, is_endpoint)

    own = _virtual_addresses(service, ips, naming)
    networks = tuple(each for each in service.addresses if not is_ip(each))
    if own:
        yield wanted(own[0], own[1:])
    if networks:
        yield wanted(ips.wildcard, ips.further_wildcards, networks=networks)
    if own or networks:
        return
    if service.is_headless:
        for address in _endpoints(service, ips):
            yield wanted(address, is_endpoint=True)
        return
    yield wanted(ips.wildcard, ips.further_wildcards)


def _virtual_addresses(service: Service, ips: IpVersions, naming: Naming) -> tuple[str, ...]:
    addresses = service.virtual_addresses or named_addresses(service, naming)
    if "0.0.0.0" in addresses or "::" in addresses:  # noqa: S104 - compared, not listened on
        return ()
    found = [each for each in addresses if ips.has(each)]
    return tuple(sorted(found, key=lambda each: ":" in each and ips.versions[0] == 4))


def _endpoints(service: Service, ips: IpVersions) -> Iterator[str]:
    for each in dict.fromkeys(endpoint.address for endpoint in service.endpoints):
        if is_ip(each) and ips.has(each):
            yield each
