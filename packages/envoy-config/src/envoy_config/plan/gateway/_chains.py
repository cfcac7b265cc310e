"""The filter chains of a router's listener, as data: which connections each takes, and for what.

Envoy refuses a listener in which two chains take the same connections, so of two routes by one SNI
name the first has it. A server none of whose routes applies has no chain.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from envoy_config.plan import _envoy_names as names
from envoy_config.plan.gateway._bindings import BoundVirtualService, bound_hosts
from envoy_config.plan.gateway._servers import LeftOut, PlannedListener, PlannedServer
from envoy_config.plan.l4._chains import Origin, TcpTarget, server_names, to_cluster
from envoy_config.plan.l4._targets import Targets
from istio_config.host_patterns import has, narrower
from istio_config.kinds.gateway import TlsMode
from istio_config.kinds.protocol import Protocol
from istio_config.kinds.virtual_service import TcpMatch, TlsMatch
from mesh_model import Service


@dataclass(frozen=True, slots=True, kw_only=True)
class GatewayChain:
    """Connections by SNI, and what a router does with them."""

    server: PlannedServer
    """Its TLS settings are those of the chain, if it ends TLS."""
    server_names: tuple[str, ...] = ()
    """Empty: any, and connections without TLS."""
    from_mesh: bool = False
    """Whether clients say by ALPN that they are proxies of the mesh."""
    target: TcpTarget | None = None
    """Where connections go; None: the server's route configuration says so for each request."""
    origin: Origin | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ConnectionSources:
    """All that chains are built from besides servers.

    bound: the VirtualServices that are bound to a Gateway (`namespace/name`), in their order.
    services: those that the router knows, by host. subsets: the names of a service's subsets.
    """

    bound: Callable[[str], Sequence[BoundVirtualService]]
    services: Mapping[str, Service]
    targets: Targets
    subsets: Callable[[Service], Sequence[str]]


@dataclass(frozen=True, slots=True, kw_only=True)
class ListenerChains:
    """The chains of a listener, and what it leaves out; one without chains is not opened."""

    chains: tuple[GatewayChain, ...]
    left_out: tuple[LeftOut, ...] = ()


def plan_chains(listener: PlannedListener, sources: ConnectionSources) -> ListenerChains:
    """Decide over the chains of a listener, in the order of its servers."""
    chains: list[GatewayChain] = []
    left_out: list[LeftOut] = []
    taken: dict[str, PlannedServer] = {}
    # Servers that end TLS have been distinguished already: what they have, routes can't.
    for server in listener.servers:
        if server.ends_tls:
            for name in server.server_names or ("*",):
                taken.setdefault(name, server)
    has_plain_http = False
    for server in listener.servers:
        if server.is_http and not server.is_tls:
            if not has_plain_http:
                chains.append(GatewayChain(server=server))
            has_plain_http = True
            continue
        for chain in _chains(server, sources):
            if not server.is_tls or server.ends_tls:
                chains.append(chain)
                continue
            other = _first_taken(chain, taken)
            if other is None:
                chains.append(chain)
                taken |= dict.fromkeys(chain.server_names or ("*",), server)
            else:
                left_out.append(_overlap(server, chain, *other))
    return ListenerChains(chains=tuple(chains), left_out=tuple(left_out))


def _chains(server: PlannedServer, sources: ConnectionSources) -> Iterable[GatewayChain]:
    mode = server.tls_mode
    if server.is_http:
        return (GatewayChain(server=server, server_names=server.server_names),)
    if mode is TlsMode.AUTO_PASSTHROUGH:
        return _by_service(server, sources)
    if mode is TlsMode.PASSTHROUGH:
        return _by_sni(server, sources)
    return _by_port(server, sources)


def _by_service(server: PlannedServer, sources: ConnectionSources) -> Iterator[GatewayChain]:
    """Yield a chain for each port and subset of services of the mesh whose names are SNI names."""
    for service in sources.services.values():
        # No SNI is one of a wildcard's host, and Envoy refuses a `*` inside of a name.
        if service.external or "*" in service.host or not _serves(server, service):
            continue
        subsets = ("", *sources.subsets(service))
        for port in service.ports:
            if port.protocol is Protocol.UDP:
                continue
            for subset in subsets:
                name = names.sni_cluster(service, port, subset)
                yield GatewayChain(
                    server=server, server_names=(name,), from_mesh=True, target=to_cluster(name)
                )


def _serves(server: PlannedServer, service: Service) -> bool:
    return any(
        each.namespace in ("*", service.namespace) and has(each.host, service.host)
        for each in server.hosts
    )


def _by_sni(server: PlannedServer, sources: ConnectionSources) -> Iterator[GatewayChain]:
    """Yield a chain for each match of the TLS routes that are bound to the server."""
    for each, hosts in _bound(server, sources):
        origin = Origin(each.namespace, each.name)
        for route in each.spec.tls:
            for match in route.match:
                names_here = _narrowed(match.sni_hosts, hosts)
                if route.route and names_here and _applies(match, server):
                    yield GatewayChain(
                        server=server,
                        server_names=server_names(names_here),
                        target=sources.targets.routed(
                            origin, route.route, server.server.port.number
                        ),
                        origin=origin,
                    )


def _by_port(server: PlannedServer, sources: ConnectionSources) -> Iterator[GatewayChain]:
    """Yield the one chain of the first TCP route that applies."""
    for each, _ in _bound(server, sources):
        origin = Origin(each.namespace, each.name)
        for route in each.spec.tcp:
            matches = route.match or (TcpMatch(),)
            if route.route and any(_applies(match, server) for match in matches):
                number = server.server.port.number
                yield GatewayChain(
                    server=server,
                    server_names=server.server_names if server.is_tls else (),
                    target=sources.targets.routed(origin, route.route, number),
                    origin=origin,
                )
                return


def _bound(
    server: PlannedServer, sources: ConnectionSources
) -> Iterator[tuple[BoundVirtualService, tuple[str, ...]]]:
    """Yield the VirtualServices that are bound to a server, each with the hosts for which it is."""
    for each in sources.bound(server.gateway_key):
        hosts = bound_hosts(server.hosts, each, gateway_namespace=server.namespace)
        if hosts:
            yield each, hosts


def _narrowed(sni_hosts: Iterable[str], hosts: Sequence[str]) -> tuple[str, ...]:
    """Return the SNI names of a match that are hosts of its binding."""
    found = (narrower(each.lower(), host) for each in sni_hosts for host in hosts)
    return tuple(dict.fromkeys(each for each in found if each is not None))


def _applies(match: TlsMatch | TcpMatch, server: PlannedServer) -> bool:
    """Return whether a match holds at a server; at gateways, wherever connections come from."""
    return (not match.gateways or server.gateway_key in match.gateways) and (
        match.port is None or match.port == server.server.port.number
    )


def _first_taken(
    chain: GatewayChain, taken: Mapping[str, PlannedServer]
) -> tuple[str, PlannedServer] | None:
    for name in chain.server_names or ("*",):
        if (other := taken.get(name)) is not None:
            return name, other
    return None


def _overlap(
    server: PlannedServer, chain: GatewayChain, name: str, other: PlannedServer
) -> LeftOut:
    route = ""
    if chain.origin is not None:
        route = f"a TLS route of VirtualService {chain.origin.namespace}/{chain.origin.name}: "
    return LeftOut(
        server.namespace,
        server.gateway,
        server.index,
        f"{route}its SNI name {name} on port {server.address.port} is that of "
        f"servers[{other.index}] of Gateway {other.gateway_key}",
    )
