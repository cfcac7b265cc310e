"""The listeners that a service's port asks for at a redirected proxy, whatever others ask for."""

from collections.abc import Iterator
from enum import Enum, auto
from typing import NamedTuple

from envoy_config.plan._outbound import named_addresses
from envoy_config.plan._proxy import Naming
from envoy_config.plan.l4._routes import connection_chains
from envoy_config.plan.redirected._egress import Egress
from envoy_config.plan.redirected._listeners import Chain, HttpChain, IpVersions
from istio_config.addresses import is_ip
from istio_config.kinds.protocol import Protocol
from mesh_model import Port, Service

Where = tuple[str, int]
"""An address and port, or `unix:///path` and 0."""


class Kind(Enum):
    """How the chains at an address and port look at connections."""

    HTTP = auto()
    TCP = auto()
    AUTO = auto()


class Wanted(NamedTuple):
    """A listener that a service wants."""

    where: Where
    kind: Kind
    chains: tuple[Chain, ...]
    further: tuple[str, ...] = ()
    is_endpoint: bool = False
    """Whether it is for one endpoint of a headless service."""
    is_bound: bool = False


class Surroundings(NamedTuple):
    """The parts of a proxy by which its listeners differ from others'."""

    ips: IpVersions
    naming: Naming


def wanted_listeners(
    service: Service, port: Port, egress: Egress, proxy: Surroundings
) -> Iterator[Wanted]:
    """Yield the listeners of a port."""
    if port.protocol is Protocol.UDP:
        return
    port = egress.declared(port)
    if egress.is_http_proxy or port.protocol.is_http:
        yield _http(port, egress, proxy.ips)
    elif egress.bind:
        number = port.number if egress.number is None else egress.number
        yield _connections(service, port, egress, (egress.bind, number), is_shared=False)
    else:
        yield from _redirected(service, port, egress, proxy)


def _http(port: Port, egress: Egress, ips: IpVersions) -> Wanted:
    route = egress.route or str(port.number)
    is_grpc_web = port.protocol is Protocol.GRPC_WEB
    number = port.number if egress.number is None else egress.number
    if not egress.bind and not egress.is_http_proxy:
        chain = HttpChain(route, detected=True, is_grpc_web=is_grpc_web)
        return Wanted((ips.wildcard, number), Kind.AUTO, (chain,), ips.further_wildcards)
    chain = HttpChain(route, detected=False, is_grpc_web=is_grpc_web)
    further = () if egress.bind else ips.further_wildcards
    where = egress.bind or ips.wildcard, number
    return Wanted(where, Kind.HTTP, (chain,), further, is_bound=egress.is_bound)


def _redirected(
    service: Service, port: Port, egress: Egress, proxy: Surroundings
) -> Iterator[Wanted]:
    """Yield the listeners for where connections to the service go."""
    ips = proxy.ips
    own = _virtual_addresses(service, proxy)
    networks = tuple(each for each in service.addresses if not is_ip(each))
    everywhere = ips.wildcard, port.number
    if own:
        connections = _connections(service, port, egress, (own[0], port.number), is_shared=False)
        yield connections._replace(further=own[1:])
    if networks:
        connections = _connections(
            service, port, egress, everywhere, is_shared=True, networks=networks
        )
        yield connections._replace(further=ips.further_wildcards)
    if own or networks:
        return
    if not service.is_headless and not service.takes_any_address and not port.protocol.is_tls:
        return
    if service.is_headless:
        for address in _endpoints(service, ips):
            where = address, port.number
            connections = _connections(service, port, egress, where, is_shared=False)
            yield connections._replace(is_endpoint=True)
        return
    connections = _connections(service, port, egress, everywhere, is_shared=True)
    yield connections._replace(further=ips.further_wildcards)


def _connections(
    service: Service,
    port: Port,
    egress: Egress,
    where: Where,
    *,
    is_shared: bool,
    networks: tuple[str, ...] = (),
) -> Wanted:
    chains: tuple[Chain, ...] = connection_chains(
        service,
        port,
        routes=egress.routes,
        targets=egress.targets,
        networks=networks,
        is_shared=is_shared,
    )
    kind = Kind.TCP
    if port.protocol is Protocol.AUTO:
        kind = Kind.AUTO
        own = str(port.number) if is_shared else f"{service.host}:{port.number}"
        chains = (HttpChain(egress.route or own, detected=True), *chains)
    return Wanted(where, kind, chains, is_bound=egress.is_bound)


def _virtual_addresses(service: Service, proxy: Surroundings) -> tuple[str, ...]:
    addresses = service.virtual_addresses or named_addresses(service, proxy.naming)
    if "0.0.0.0" in addresses or "::" in addresses:  # noqa: S104 - compared, not listened on
        return ()
    found = [each for each in addresses if proxy.ips.has(each)]
    return tuple(sorted(found, key=lambda each: ":" in each and proxy.ips.versions[0] == 4))


def _endpoints(service: Service, ips: IpVersions) -> Iterator[str]:
    own = (
        endpoint.address
        for endpoint in service.endpoints
        # Only a pod's address is known to be its own.
        if endpoint.is_pod or service.takes_any_address
    )
    for each in dict.fromkeys(own):
        if is_ip(each) and ips.has(each):
            yield each
