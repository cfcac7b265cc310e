"""Plans the outbound listeners of a proxy, also where services want the same address and port."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from envoy_config.plan import _envoy_names as names
from envoy_config.plan._proxy import NO_DNS, Naming
from envoy_config.plan.l4._chains import TcpChain, to_cluster
from envoy_config.plan.l4._routes import NO_ROUTES, ConnectionRoutes, connection_chains
from envoy_config.plan.l4._targets import Targets
from istio_config.kinds.protocol import Protocol
from istio_config.kinds.sidecar import CaptureMode, SidecarPort
from mesh_model import EgressListener, Port, Service


@dataclass(frozen=True, slots=True, kw_only=True)
class HttpOutbound:
    """An outbound listener whose requests are routed by Host."""

    bind: str
    """An IP address or `unix:///path`."""
    port: int
    route: str
    is_virtual_address: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class TcpOutbound:
    """An outbound listener that belongs to one service."""

    bind: str
    port: int
    cluster: str
    is_virtual_address: bool


Outbound = HttpOutbound | TcpOutbound


@dataclass(frozen=True, slots=True, kw_only=True)
class Conflict:
    """A listener that a service needs, at an address and port that is taken."""

    bind: str
    port: int
    host: str
    """Of the service; or what else wants to listen there."""
    is_workloads: bool = False
    """Whether the proxy's own workload, or the proxy for it, listens there; else a service does."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OutboundPlan:
    """The listeners for a workload's own calls, and the services that found no place.

    only_by_http_proxy: HTTP services that have no listener of their port, since the workload itself
    listens there, and that its program reaches through the HTTP proxy all the same.
    """

    listeners: tuple[Outbound, ...]
    conflicts: tuple[Conflict, ...]
    only_by_http_proxy: tuple[Conflict, ...] = ()
    chains: Mapping[Outbound, tuple[TcpChain, ...]] = field(default_factory=dict)
    """The chains of TCP listeners that do more than lead to their service's cluster."""


_OF_SIDECAR = "an egress listener of its Sidecar"


class _Claim(NamedTuple):
    """A listener, and the port of a service that wants it, if it is for one."""

    listener: Outbound
    service: Service | None = None
    port: Port | None = None


def plan_outbound(
    egress: Iterable[EgressListener],
    *,
    address: str,
    naming: Naming = NO_DNS,
    http_proxy_port: int | None = None,
    taken: frozenset[tuple[str, int]] = frozenset(),
    own: frozenset[tuple[str, int]] = frozenset(),
    routes: Callable[[EgressListener], ConnectionRoutes] = lambda _: NO_ROUTES,
    targets: Targets | None = None,
) -> OutboundPlan:
    """Decide which service listens where, the oldest first; `taken` places are not to be had.

    HTTP services share one listener a port on `address`. A service of any other protocol has its
    own, on its virtual addresses if it has any. Where names lead to addresses of a service's own,
    HTTP has a listener there too. A Sidecar's listeners with a port are where it says. The result
    has the TCP listeners first, then HTTP, each in order, then the HTTP proxy. own: hosts and ports
    that the workload answers at a taken place by itself. routes: of connections of a listener;
    targets: what they lead to.
    """
    owners: dict[tuple[str, int], Outbound] = {}
    conflicts: list[Conflict] = []
    http_beside_workload: list[Conflict] = []
    chains: dict[Outbound, tuple[TcpChain, ...]] = {}
    for each in egress:
        own_routes: ConnectionRoutes | None = None
        for wanted, service, port in _claims(each, address, naming):
            place = (wanted.bind, wanted.port)
            host = service.host if service is not None else _OF_SIDECAR
            if place in taken:
                if (host, wanted.port) in own:
                    continue  # a call to it from its own machine arrives where it should
                conflict = Conflict(
                    bind=wanted.bind, port=wanted.port, host=host, is_workloads=True
                )
                is_named = isinstance(wanted, HttpOutbound) and service is not None
                (http_beside_workload if is_named else conflicts).append(conflict)
            elif owners.setdefault(place, wanted) != wanted:
                conflicts.append(Conflict(bind=wanted.bind, port=wanted.port, host=host))
            elif isinstance(wanted, TcpOutbound) and service and port and targets is not None:
                own_routes = own_routes or routes(each)
                own_chains = connection_chains(service, port, routes=own_routes, targets=targets)
                if own_chains != (TcpChain(target=to_cluster(wanted.cluster)),):
                    chains[wanted] = own_chains
    listeners = sorted(
        owners.values(), key=lambda each: (isinstance(each, HttpOutbound), each.bind, each.port)
    )
    has_http_proxy = False
    if http_proxy_port is not None:
        place = (address, http_proxy_port)
        if place in taken or place in owners:
            conflicts.append(
                Conflict(
                    bind=address,
                    port=http_proxy_port,
                    host=names.HTTP_PROXY_ROUTE,
                    is_workloads=place in taken,
                )
            )
        else:
            has_http_proxy = True
            listeners.append(
                HttpOutbound(bind=address, port=http_proxy_port, route=names.HTTP_PROXY_ROUTE)
            )
    if not has_http_proxy:
        conflicts.extend(http_beside_workload)
    return OutboundPlan(
        listeners=tuple(listeners),
        conflicts=tuple(conflicts),
        only_by_http_proxy=tuple(http_beside_workload) if has_http_proxy else (),
        chains=chains,
    )


def _claims(listener: EgressListener, address: str, naming: Naming) -> Iterator[_Claim]:
    """Yield the listeners that the services of an egress listener want, in their order."""
    if listener.port is not None:
        yield from _claims_of_port(listener, listener.port, address, naming)
        return
    for service in listener.services:
        for port in service.ports:
            for wanted in wanted_listeners(service, port, address, naming):
                yield _Claim(wanted, service, port)


def _claims_of_port(
    listener: EgressListener, given: SidecarPort, address: str, naming: Naming
) -> Iterator[_Claim]:
    """Yield the listeners of an egress listener that has a port, or is bound to a Unix socket.

    Redirected connections, which IPTABLES says to wait for, are not where nothing is intercepted.
    """
    if listener.capture_mode is CaptureMode.IPTABLES:
        return
    bind = listener.bind or address
    protocol = given.known_protocol
    if protocol.is_http:
        route = str(given.number) if given.number else bind
        if given.is_http_proxy:
            route = names.http_proxy_route(given.number)
        yield _Claim(HttpOutbound(bind=bind, port=given.number, route=route))
        return
    is_placed = bool(listener.bind) or listener.capture_mode is CaptureMode.NONE
    for service in listener.services:
        for port in service.ports:
            if port.protocol is Protocol.UDP:
                continue
            if is_placed and (protocol is not Protocol.AUTO or not port.protocol.is_http):
                cluster = f"outbound|{port.number}||{service.host}"
                yield _Claim(
                    TcpOutbound(
                        bind=bind, port=given.number, cluster=cluster, is_virtual_address=False
                    ),
                    service,
                    port,
                )
                continue
            for wanted in wanted_listeners(service, port, bind, naming):
                yield _Claim(wanted, service, port)


def wanted_listeners(
    service: Service, port: Port, address: str, naming: Naming = NO_DNS
) -> Iterable[Outbound]:
    """Yield the listeners by which a proxy with this outbound address reaches a service's port."""
    if port.protocol is Protocol.UDP:
        return
    named = named_addresses(service, naming)
    if port.protocol.is_http:
        route = str(port.number)
        yield HttpOutbound(bind=address, port=port.number, route=route)
        for bind in named:
            yield HttpOutbound(bind=bind, port=port.number, route=route, is_virtual_address=True)
        return
    cluster = f"outbound|{port.number}||{service.host}"
    own = service.virtual_addresses or named
    if not own and not service.takes_any_address:
        return
    for bind in own or (address,):
        yield TcpOutbound(
            bind=bind, port=port.number, cluster=cluster, is_virtual_address=bool(own)
        )


def named_addresses(service: Service, naming: Naming) -> tuple[str, ...]:
    """Return the addresses of a service's own that its name leads to at a proxy, if any.

    A proxy with listeners of its own has HTTP at one address for all services; only a service that
    has another protocol too, and for that an address, has its HTTP there as well.
    """
    if not naming.answers_dns:
        return ()
    if naming.own_listeners:
        mixed = len({port.protocol.is_http for port in service.ports}) > 1
        return service.virtual_addresses if mixed else ()
    if service.addresses:
        return service.virtual_addresses
    versions = naming.ip_versions
    return tuple(each for each in service.auto_addresses if (6 if ":" in each else 4) in versions)
