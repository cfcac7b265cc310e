"""The hosts of one port, and which VirtualService applies to each.

A VirtualService applies to a service by its host; one with that very host comes before one with a
wildcard, a longer wildcard before a shorter one, and of equals the first in order wins whole. Hosts
of VirtualServices that no service on the port has are hosts all the same.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from istio_config.host_patterns import has
from istio_config.kinds.protocol import Protocol
from mesh_model import HostIndex, Port, Service, VirtualService

_HTTP_PORT = 80
"""VirtualServices whose hosts no service has are found on this port."""


class PortService(NamedTuple):
    """A service, and its port on which requests come."""

    service: Service
    port: Port


@dataclass(frozen=True, slots=True, kw_only=True)
class RoutedHost:
    """A host on a port; of a service, of a VirtualService, or of both."""

    host: str
    found: PortService | None = None
    virtual_service: VirtualService | None = None


def services_on(port: int, services: Iterable[Service], *, redirected: bool) -> list[PortService]:
    """Return the services to which requests come on a port, in their order.

    redirected: for a redirected proxy, which finds requests on ports of undeclared protocol too.
    """
    return [
        PortService(service, each)
        for service in services
        for each in service.ports
        if each.number == port
        and (each.protocol.is_http or (redirected and each.protocol is Protocol.AUTO))
    ]


def routed_hosts(
    port: int,
    services: Sequence[PortService],
    virtual_services: Sequence[VirtualService],
    *,
    applies: Callable[[VirtualService], bool],
) -> list[RoutedHost]:
    """Return the hosts of a port: those of VirtualServices first, in the order of claims.

    virtual_services: in the order in which they win. applies: whether one has routes for the port.
    """
    by_host = {each.service.host: each for each in services}
    known = _KnownHosts(by_host)
    claims = [
        (host, each)
        for each in virtual_services
        if each.spec.http
        and (port == _HTTP_PORT or any(map(known.has, each.hosts)))
        and applies(each)
        for host in each.hosts
    ]
    applicable = HostIndex(claims)
    routed: list[RoutedHost] = []
    rest: list[RoutedHost] = []
    for host, each in by_host.items():
        applied = applicable.most_specific(host)
        chosen = applied[0] if applied else None
        found = RoutedHost(host=host, found=each, virtual_service=chosen)
        (routed if chosen is not None else rest).append(found)
    own = {
        host: RoutedHost(host=host, virtual_service=each)
        for host, each in reversed(claims)
        if not known.has(host)
    }
    return [*routed, *reversed(own.values()), *rest]


class _KnownHosts:
    """Tells whether a service has a host, or one that a wildcard has."""

    def __init__(self, hosts: Iterable[str]) -> None:
        self._hosts = frozenset(hosts)
        self._endings: frozenset[str] | None = None

    def has(self, pattern: str) -> bool:
        if not pattern.startswith("*"):
            return pattern in self._hosts
        if pattern == "*":
            return bool(self._hosts)
        if pattern.startswith("*."):
            return pattern in self._hosts or pattern[1:] in self._all_endings()
        return any(has(pattern, each) for each in self._hosts)

    def _all_endings(self) -> frozenset[str]:
        if self._endings is None:
            self._endings = frozenset(_endings(self._hosts))
        return self._endings


def _endings(hosts: Iterable[str]) -> Iterable[str]:
    for host in hosts:
        at = host.find(".")
        while at >= 0:
            if host[:at] != "*" or at > 1:
                yield host[at:]
            at = host.find(".", at + 1)
