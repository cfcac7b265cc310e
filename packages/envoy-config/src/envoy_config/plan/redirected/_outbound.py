"""Plans the outbound listeners of redirected proxies: which services are at which address and port.

Connections come to the listener of the address and port that they were going to, else to that of
the port alone. HTTP services share the latter. Others have their own addresses, if any: several
TCP services at one address and port can be distinguished by SNI or range only, and the older wins.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from envoy_config.plan._outbound import Conflict
from envoy_config.plan._proxy import NO_DNS, Naming
from envoy_config.plan.l4._chains import TcpChain, TcpTarget, connections, only
from envoy_config.plan.redirected._egress import Egress
from envoy_config.plan.redirected._listeners import Chain, HttpChain, IpVersions, RedirectedListener
from envoy_config.plan.redirected._wanted import Kind, Surroundings, Wanted, Where, wanted_listeners
from istio_config.kinds.protocol import Protocol
from mesh_model import Port, Service

_OWN_PORTS = frozenset({15021, 15090})
"""Ports of health and metrics, which every proxy has."""
_ALONE = (Protocol.MONGO, Protocol.MYSQL)
"""Protocols whose ports have no chains of other protocols."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RedirectedOutbound:
    """The outbound listeners of redirected proxies that know the same."""

    listeners: tuple[RedirectedListener, ...] = ()
    of_endpoints: Mapping[str, tuple[RedirectedListener, ...]] = field(default_factory=dict)
    """Listeners for the endpoints of headless services, by address: not for proxies there."""
    conflicts: tuple[Conflict, ...] = ()
    steps: "Steps" = field(default_factory=lambda: Steps({}, {}), compare=False, repr=False)


class Steps(NamedTuple):
    """The parts of a plan, for the plan that comes after it: most services stay as they are.

    wanted: by the identity of a service, and which egress listener has it. listeners: each,
    with the only thing that is wanted of it; None if there are several.
    """

    wanted: Mapping[tuple[int, int], "_OfService"]
    listeners: Mapping[Where, tuple[Wanted | None, RedirectedListener]]


class _OfService(NamedTuple):
    service: Service
    """Kept, so that no other has its identity."""
    wanted: tuple[tuple[Port, Wanted], ...]
    is_plain: bool
    """Whether no rule has a say in it, so that it is the same wherever none has."""


def plan_redirected_outbound(
    egress: Iterable[Egress],
    *,
    ips: IpVersions,
    rest: TcpTarget,
    naming: Naming = NO_DNS,
    own_ports: tuple[int, ...] = (),
    http_proxy: Where | None = None,
    http_proxy_route: str = "",
    before: RedirectedOutbound | None = None,
    same_connections: bool = False,
) -> RedirectedOutbound:
    """Decide what is listened for.

    egress: those with a port first. rest: the target of connections that no service takes.
    own_ports: those to which connections are led. http_proxy: where the workload may speak to its
    proxy as to an HTTP proxy. before: the plan that this one replaces, whose listeners stay the
    same objects if they stay as they are. same_connections: equal services want what they wanted
    then; else only those for which no rule has a say, then and now.
    """
    plan = _Plan(ips, _OWN_PORTS.union(own_ports))
    proxy = Surroundings(ips, naming)
    if http_proxy is not None:
        chain = HttpChain(http_proxy_route, detected=False)
        plan.add(None, Wanted(http_proxy, Kind.HTTP, (chain,), is_bound=True))
        plan.lock()
    earlier = before.steps.wanted if before is not None else {}
    wanted: dict[tuple[int, int], _OfService] = {}
    for number, each in enumerate(egress):
        for service in each.services:
            key = id(service), number
            found = earlier.get(key)
            if found is None or not (
                same_connections or (found.is_plain and each.is_plain_for(service))
            ):
                found = _of_service(service, each, proxy)
            wanted[key] = found
            for port, one in found.wanted:
                plan.add((service, port), one)
        if each.has_port:
            plan.lock()
    return plan.finished(rest, wanted, before.steps.listeners if before is not None else {})


def _of_service(service: Service, egress: Egress, proxy: Surroundings) -> _OfService:
    return _OfService(
        service,
        tuple(
            (port, each)
            for port in service.ports
            for each in wanted_listeners(service, port, egress, proxy)
        ),
        is_plain=egress.is_plain_for(service),
    )


class _SharedAddress:
    """An address and port that several services want, and the chains that they get there.

    Envoy refuses a listener two of whose chains take the same connections: a chain that would is
    left out, and the older service keeps them.
    """

    def __init__(self, kind: Kind, protocol: Protocol | None, chains: Iterable[Chain]) -> None:
        self._kind = kind
        self._protocol = protocol
        self._chains: list[Chain] = []
        self._taken: set[tuple[str, str]] = set()
        for each in chains:
            self._add(each)

    @property
    def chains(self) -> tuple[Chain, ...]:
        """The chains; that of requests first."""
        detected = self._kind is Kind.AUTO
        return tuple(
            each._replace(detected=detected) if isinstance(each, HttpChain) else each
            for each in sorted(self._chains, key=lambda each: isinstance(each, TcpChain))
        )

    def merge(self, kind: Kind, protocol: Protocol | None, chains: Iterable[Chain]) -> bool:
        """Add the chains of a further service; tells whether it lost none."""
        if protocol is not self._protocol and (protocol in _ALONE or self._protocol in _ALONE):
            return False
        if kind is Kind.HTTP and self._kind is not Kind.TCP:
            return True  # the requests of all services have one chain
        if kind is Kind.AUTO and self._kind is Kind.HTTP:
            self._chains.clear()  # what is sniffed takes requests, too
        if kind is not self._kind:
            self._kind = Kind.AUTO
        lost = [each for each in chains if not self._add(each)]
        return not lost

    def _add(self, chain: Chain) -> bool:
        if isinstance(chain, HttpChain):
            if not any(isinstance(each, HttpChain) for each in self._chains):
                self._chains.append(chain)
            return True
        wanted = list(connections(chain))
        free = [each for each in wanted if each not in self._taken]
        if not free:
            return False
        self._taken.update(free)
        if len(free) < len(wanted):
            self._chains.extend(only(chain, free))
            return False
        self._chains.append(chain)
        return True


class _Plan:
    """The addresses and ports that are taken while services are gone through, the oldest first."""

    def __init__(self, ips: IpVersions, own_ports: frozenset[int]) -> None:
        """own_ports: where no listener can stand for all addresses."""
        self._ips = ips
        self._own_ports = own_ports
        self._first: dict[Where, tuple[Protocol | None, Wanted]] = {}
        """What each of them was first wanted for, with its further addresses that were free."""
        self._shared: dict[Where, _SharedAddress] = {}
        """Those that several services want."""
        self._aliases: set[Where] = set()
        self._locked: frozenset[Where] = frozenset()
        self._conflicts: dict[Conflict, None] = {}

    def add(self, owner: tuple[Service, Port] | None, wanted: Wanted) -> None:
        """Add a listener, or the chains of it that are free; what is not free is a conflict."""
        where = wanted.where
        if where in self._locked:
            return  # the Sidecar says what is there
        protocol = owner[1].protocol if owner is not None else None
        if not self._fits(protocol, wanted) and owner is not None:
            self._conflicts[Conflict(bind=where[0], port=where[1], host=owner[0].host)] = None

    def _fits(self, protocol: Protocol | None, wanted: Wanted) -> bool:
        where = bind, number = wanted.where
        known = self._first.get(where)
        if known is not None:
            if known[1].chains == wanted.chains and isinstance(wanted.chains[-1], HttpChain):
                return True  # the requests of all services have one chain, as nearly always
            shared = self._shared.get(where)
            if shared is None:
                shared = _SharedAddress(known[1].kind, known[0], known[1].chains)
                self._shared[where] = shared
            return shared.merge(wanted.kind, protocol, wanted.chains)
        if where in self._aliases or (bind == self._ips.wildcard and number in self._own_ports):
            return False
        if not wanted.further:
            self._first[where] = protocol, wanted
            return True
        free = tuple(
            address
            for address in wanted.further
            if (address, number) not in self._first and (address, number) not in self._aliases
        )
        self._aliases.update((address, number) for address in free)
        fits = len(free) == len(wanted.further)
        self._first[where] = protocol, wanted if fits else wanted._replace(further=free)
        return fits

    def lock(self) -> None:
        """Leave what is there as it is."""
        self._locked = frozenset(self._first) | self._aliases

    def finished(
        self,
        rest: TcpTarget,
        wanted: Mapping[tuple[int, int], _OfService],
        before: Mapping[Where, tuple[Wanted | None, RedirectedListener]],
    ) -> RedirectedOutbound:
        """Return what was planned."""
        of_endpoints: dict[str, list[RedirectedListener]] = {}
        listeners = []
        by_address: dict[Where, tuple[Wanted | None, RedirectedListener]] = {}
        for where in sorted(self._first):
            first = self._first[where][1]
            listener = self._listener(where, rest, before.get(where))
            by_address[where] = None if where in self._shared else first, listener
            if first.is_endpoint:
                of_endpoints.setdefault(where[0], []).append(listener)
            else:
                listeners.append(listener)
        return RedirectedOutbound(
            listeners=tuple(listeners),
            of_endpoints={key: tuple(values) for key, values in of_endpoints.items()},
            conflicts=tuple(self._conflicts),
            steps=Steps(wanted, by_address),
        )

    def _listener(
        self, where: Where, rest: TcpTarget, before: tuple[Wanted | None, RedirectedListener] | None
    ) -> RedirectedListener:
        wanted, shared = self._first[where][1], self._shared.get(where)
        if shared is None and before is not None and before[0] is wanted and before[1].rest == rest:
            return before[1]
        listener = RedirectedListener(
            bind=where[0],
            port=where[1],
            chains=wanted.chains if shared is None else shared.chains,
            rest=rest,
            further=wanted.further,
            is_bound=wanted.is_bound,
        )
        return before[1] if before is not None and before[1] == listener else listener
