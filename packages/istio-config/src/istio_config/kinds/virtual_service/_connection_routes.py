"""Routes of TLS connections that the proxy does not end, by SNI, and of TCP connections.

Source: Istio's API, networking/v1, and its validation.
"""

from collections.abc import Iterator, Sequence

from istio_config.addresses import is_ip
from istio_config.host_patterns import has
from istio_config.kinds.checks import is_wildcard_host
from istio_config.kinds.fields import SpecFields
from istio_config.kinds.kind import Coded
from istio_config.kinds.virtual_service._destinations import (
    RouteDestination,
    weighted_destination_mistakes,
)
from istio_config.kinds.virtual_service._matches import (
    TcpMatch,
    TlsMatch,
    connection_match_mistakes,
    subnet_mistakes,
)
from mesh_configfile import FieldPath
from mesh_configfile.shapes import Finding


class TlsRoute(SpecFields, frozen=True):
    """A route of TLS connections that the proxy does not end, by SNI."""

    match: tuple[TlsMatch, ...] = ()
    route: tuple[RouteDestination, ...] = ()


class TcpRoute(SpecFields, frozen=True):
    """A route of TCP connections."""

    match: tuple[TcpMatch, ...] = ()
    route: tuple[RouteDestination, ...] = ()


def tls_route_mistakes(
    route: TlsRoute, path: FieldPath, *, hosts: Sequence[str]
) -> Iterator[Finding]:
    """Yield what is wrong with a TLS route of a VirtualService of these hosts."""
    if not route.match:
        yield path, "needs a match with sniHosts"
    for index, match in enumerate(route.match):
        here = (*path, "match", index)
        if not match.sni_hosts:
            yield (*here, "sniHosts"), "must name at least one host"
        for at, host in enumerate(match.sni_hosts):
            if not is_wildcard_host(host):
                yield (*here, "sniHosts", at), f'"{host}" is not a host name'
            elif host != "*" and "*" in host.removeprefix("*."):
                yield (
                    (*here, "sniHosts", at),
                    f'"{host}" has a wildcard that is not a whole label, which Envoy refuses',
                )
            elif not any(has(each.lower(), host.lower()) for each in hosts):
                yield (
                    (*here, "sniHosts", at),
                    f'"{host}" is not among the hosts of this VirtualService: {", ".join(hosts)}',
                )
        yield from connection_match_mistakes(match, here)
    yield from _destination_mistakes(route, path)


def tcp_route_mistakes(route: TcpRoute, path: FieldPath) -> Iterator[Finding]:
    """Yield what is wrong with a TCP route."""
    for index, match in enumerate(route.match):
        here = (*path, "match", index)
        if match.source_subnet:
            yield from subnet_mistakes([match.source_subnet], (*here, "sourceSubnet"))
        yield from connection_match_mistakes(match, here)
    yield from _destination_mistakes(route, path)


def _destination_mistakes(route: TlsRoute | TcpRoute, path: FieldPath) -> Iterator[Finding]:
    if not route.route:
        yield path, "does nothing: give route"
    yield from weighted_destination_mistakes(route.route, (*path, "route"))


def tls_route_warnings(route: TlsRoute, path: FieldPath) -> Iterator[Finding]:
    """Yield the `sniHosts` that no client sends."""
    for index, match in enumerate(route.match):
        for at, host in enumerate(match.sni_hosts):
            # RFC 6066, section 3: literal addresses are not permitted in "HostName".
            if is_ip(host):
                yield (
                    (*path, "match", index, "sniHosts", at),
                    f'"{host}" is an address, and clients send names only: nothing matches',
                )


def tcp_route_warnings(route: TcpRoute, path: FieldPath) -> Iterator[Finding]:
    """Yield the conditions that have no effect."""
    for index, match in enumerate(route.match):
        if match.source_subnet:
            yield (
                (*path, "match", index, "sourceSubnet"),
                "has no effect, nor in Istio: use sourceLabels or sourceNamespace",
            )


def shadowed_route_warnings(kind: str, routes: Sequence[TlsRoute | TcpRoute]) -> Iterator[Coded]:
    """Yield the routes behind one that takes all connections, and repeated matches."""
    seen: dict[object, int] = {}
    everything: int | None = None
    for index, route in enumerate(routes):
        if everything is not None:
            yield (
                (kind, index),
                f"is never reached: rule {everything + 1} takes all connections",
                "IST0130",
            )
            continue
        repeated = []
        for at, match in enumerate(route.match):
            first = seen.setdefault(repr(match), index)
            if first != index:
                repeated.append((at, first))
        code = "IST0130" if len(repeated) == len(route.match) else "IST0131"
        for at, first in repeated:
            path = (kind, index, "match", at)
            yield path, f"is never reached: rule {first + 1} has it too", code
        if not route.match or TcpMatch() in route.match:
            everything = index
