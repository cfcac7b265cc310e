"""Plans the outbound listeners of captured proxies: which services are at which address and port.

Connections come to the listener of the address and port that they were going to, else to that of
the port alone. HTTP services share the latter. Others have their own addresses, if any: several
TCP services at one address and port can be told apart by SNI or range only, and the older wins.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from mesh_discovery.model._services import Port, Service
from mesh_discovery.plan._outbound import Conflict
from mesh_discovery.plan._proxy import NO_DNS, Naming
from mesh_discovery.plan.capture._egress import Egress
from mesh_discovery.plan.capture._listeners import CapturedListener, HttpChain, IpVersions
from mesh_discovery.plan.capture._places import Kind, Place
from mesh_discovery.plan.capture._wanted import Surroundings, Wanted, Where, wanted_listeners
from mesh_discovery.plan.l4._chains import TcpTarget

_OWN_PORTS = frozenset({15021, 15090})
"""Ports of health and metrics, which every proxy has."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CapturedOutbound:
    """The outbound listeners of captured proxies that know the same."""

    listeners: tuple[CapturedListener, ...] = ()
    of_endpoints: Mapping[str, tuple[CapturedListener, ...]] = field(default_factory=dict)
    """Listeners for the endpoints of headless services, by address: not for proxies there."""
    conflicts: tuple[Conflict, ...] = ()


def plan_captured_outbound(
    egress: Iterable[Egress],
    *,
    ips: IpVersions,
    rest: TcpTarget,
    naming: Naming = NO_DNS,
    own_ports: tuple[int, ...] = (),
    http_proxy: Where | None = None,
    http_proxy_route: str = "",
) -> CapturedOutbound:
    """Decide what is listened for.

    egress: those with a port first. rest: the target of connections that no service takes.
    own_ports: those to which connections are led. http_proxy: where the workload may speak to its
    proxy as to an HTTP proxy.
    """
    plan = _Plan(ips, _OWN_PORTS.union(own_ports))
    proxy = Surroundings(ips, naming)
    if http_proxy is not None:
        chain = HttpChain(http_proxy_route, detected=False)
        plan.add(None, Wanted(http_proxy, Kind.HTTP, (chain,), is_bound=True))
        plan.lock()
    for each in egress:
        for service in each.services:
            for port in service.ports:
                if plan.has_http(port, each):
                    continue
                for wanted in wanted_listeners(service, port, each, proxy):
                    plan.add((service, port), wanted)
        if each.has_port:
            plan.lock()
    return plan.finished(rest)


class _Plan:
    """The places that are taken while services are gone through, the oldest first."""

    def __init__(self, ips: IpVersions, own_ports: frozenset[int]) -> None:
        """own_ports: where no listener can stand for all addresses."""
        self._ips = ips
        self._own_ports = own_ports
        self._places: dict[Where, Place] = {}
        self._wanted: dict[Where, Wanted] = {}
        """What each place was first wanted for, with its further addresses that were free."""
        self._aliases: set[Where] = set()
        self._locked: frozenset[Where] = frozenset()
        self._http: set[int] = set()
        self._conflicts: dict[Conflict, None] = {}

    def has_http(self, port: Port, egress: Egress) -> bool:
        """Tell whether a port is HTTP that has its listener already, as most are."""
        return (
            not egress.has_port
            and not egress.bind
            and port.number in self._http
            and port.protocol.is_http
        )

    def add(self, owner: tuple[Service, Port] | None, wanted: Wanted) -> None:
        """Add a listener, or the chains of it that are free; whatever is not free is told."""
        where = wanted.where
        if where in self._locked:
            return  # the Sidecar says what is there
        if not self._fits(owner, wanted) and owner is not None:
            bind, port = where
            self._conflicts[Conflict(bind=bind, port=port, host=owner[0].host)] = None
        elif where[0] == self._ips.wildcard and isinstance(wanted.chains[0], HttpChain):
            self._http.add(where[1])

    def _fits(self, owner: tuple[Service, Port] | None, wanted: Wanted) -> bool:
        where = bind, number = wanted.where
        if where in self._aliases or (bind == self._ips.wildcard and number in self._own_ports):
            return False
        place = self._places.get(where)
        if place is not None:
            if owner is None:
                return False
            return place.merge(wanted.kind, owner[1].protocol, wanted.chains)
        protocol = owner[1].protocol if owner is not None else None
        self._places[where] = Place(wanted.kind, protocol, wanted.chains)
        free = tuple(
            address
            for address in wanted.further
            if (address, number) not in self._places and (address, number) not in self._aliases
        )
        self._aliases.update((address, number) for address in free)
        self._wanted[where] = wanted._replace(further=free)
        return len(free) == len(wanted.further)

    def lock(self) -> None:
        """Leave what is there as it is."""
        self._locked = frozenset(self._places) | self._aliases

    def finished(self, rest: TcpTarget) -> CapturedOutbound:
        """Return what was planned."""
        of_endpoints: dict[str, list[CapturedListener]] = {}
        listeners = []
        for where in sorted(self._places):
            wanted = self._wanted[where]
            made = CapturedListener(
                bind=where[0],
                port=where[1],
                chains=self._places[where].chains,
                rest=rest,
                further=wanted.further,
                is_bound=wanted.is_bound,
            )
            if wanted.is_endpoint:
                of_endpoints.setdefault(where[0], []).append(made)
            else:
                listeners.append(made)
        return CapturedOutbound(
            listeners=tuple(listeners),
            of_endpoints={key: tuple(values) for key, values in of_endpoints.items()},
            conflicts=tuple(self._conflicts),
        )
