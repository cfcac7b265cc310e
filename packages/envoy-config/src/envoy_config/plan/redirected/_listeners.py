"""The outbound listeners of redirected proxies, as data."""

from dataclasses import dataclass
from typing import NamedTuple

from envoy_config.plan.l4._chains import TcpChain, TcpTarget

IPV4, IPV6 = 4, 6
WILDCARDS = {IPV4: "0.0.0.0", IPV6: "::"}  # noqa: S104 - what Istio names its listeners by

LOOPBACKS = {IPV4: "127.0.0.1", IPV6: "::1"}


class HttpChain(NamedTuple):
    """Requests, routed by Host in the route configuration of this name.

    detected: only connections whose first bytes are HTTP's; else all.
    """

    route: str
    detected: bool
    is_grpc_web: bool = False
    """Whether gRPC-Web is translated, as it is where the oldest service speaks it."""


Chain = HttpChain | TcpChain


@dataclass(frozen=True, slots=True, kw_only=True)
class RedirectedListener:
    """A listener for connections that were going to this address and port."""

    bind: str
    """An IP address or `unix:///path`."""
    port: int
    """0: of a Unix socket."""
    chains: tuple[Chain, ...]
    rest: TcpTarget
    """The target of connections that no chain takes."""
    further: tuple[str, ...] = ()
    """More addresses that it is for."""
    is_bound: bool = False
    """Whether the proxy really listens there, as nothing leads connections to it."""

    @property
    def is_http(self) -> bool:
        """Whether all connections are requests."""
        return len(self.chains) == 1 and isinstance(self.chains[0], HttpChain)


class IpVersions(NamedTuple):
    """The versions of IP that a proxy has; of two, IPv4 gives listeners their names."""

    versions: tuple[int, ...]

    @property
    def wildcard(self) -> str:
        """The address that stands for all."""
        return WILDCARDS[self.versions[0]]

    @property
    def further_wildcards(self) -> tuple[str, ...]:
        """The same in the other version, if the proxy has both."""
        return tuple(WILDCARDS[each] for each in self.versions[1:])

    def has(self, address: str) -> bool:
        """Return whether the proxy can be connected to an address of this version."""
        return (IPV6 if ":" in address else IPV4) in self.versions


def ip_versions(addresses: tuple[str, ...]) -> IpVersions:
    """Return the versions of a proxy's own addresses."""
    return IpVersions(tuple(sorted({IPV6 if ":" in each else IPV4 for each in addresses})))
