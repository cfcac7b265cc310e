"""The rules of TLS and TCP routes."""

from collections.abc import Iterable, Iterator, Sequence

from istio_config.addresses import is_ip, is_network
from istio_config.host_patterns import has
from istio_config.kinds.checks import is_dns_label, is_wildcard_host, label_mistakes
from istio_config.kinds.virtual_service._destination_mistakes import weighted_mistakes
from istio_config.kinds.virtual_service._matches import TcpMatch, TlsMatch
from istio_config.kinds.virtual_service._spec import TcpRoute, TlsRoute
from mesh_configfile import FieldPath
from mesh_configfile.shapes import Finding


def tls_route_mistakes(
    route: TlsRoute, path: FieldPath, *, hosts: Sequence[str]
) -> Iterator[Finding]:
    """Yield what is wrong with a TLS route of a VirtualService of these hosts."""
    if not route.match:
        yield path, "needs a match with sniHosts"
    for index, match in enumerate(route.match):
        place = (*path, "match", index)
        if not match.sni_hosts:
            yield (*place, "sniHosts"), "must name at least one host"
        for at, host in enumerate(match.sni_hosts):
            if not is_wildcard_host(host):
                yield (*place, "sniHosts", at), f'"{host}" is not a host name'
            elif host != "*" and "*" in host.removeprefix("*."):
                yield (
                    (*place, "sniHosts", at),
                    f'"{host}" has a wildcard that is not a whole label, which Envoy refuses',
                )
            elif not any(has(each.lower(), host.lower()) for each in hosts):
                yield (
                    (*place, "sniHosts", at),
                    f'"{host}" is not among the hosts of this VirtualService: {", ".join(hosts)}',
                )
        yield from _match_mistakes(match, place)
    yield from _destinations(route, path)


def tcp_route_mistakes(route: TcpRoute, path: FieldPath) -> Iterator[Finding]:
    """Yield what is wrong with a TCP route."""
    for index, match in enumerate(route.match):
        place = (*path, "match", index)
        if match.source_subnet:
            yield from _subnet_mistakes([match.source_subnet], (*place, "sourceSubnet"))
        yield from _match_mistakes(match, place)
    yield from _destinations(route, path)


def _destinations(route: TlsRoute | TcpRoute, path: FieldPath) -> Iterator[Finding]:
    if not route.route:
        yield path, "does nothing: give route"
    yield from weighted_mistakes(route.route, (*path, "route"))


def _match_mistakes(match: TlsMatch | TcpMatch, path: FieldPath) -> Iterator[Finding]:
    yield from _subnet_mistakes(match.destination_subnets, (*path, "destinationSubnets"))
    yield from label_mistakes(match.source_labels, (*path, "sourceLabels"))
    if match.source_namespace and not is_dns_label(match.source_namespace):
        yield (*path, "sourceNamespace"), f'"{match.source_namespace}" is not a namespace'


def _subnet_mistakes(subnets: Iterable[str], path: FieldPath) -> Iterator[Finding]:
    for index, each in enumerate(subnets):
        if not is_ip(each) and not is_network(each):
            yield (*path, index), f'"{each}" is not an IP address or a range in CIDR form'


def sni_is_ip(host: str) -> bool:
    """Return whether an SNI can't be sent: clients send none for addresses."""
    return is_ip(host)
