"""Which servers are asked for a name, and in which order; this server itself never."""

import ipaddress
from collections.abc import Callable, Iterable, Mapping
from typing import NamedTuple

from mesh_dnsproxy.forwarding._resolv_conf import Upstream

_FAILURES_UNTIL_LAST = 2
_LAST_FOR_S = 10.0


class Routes(NamedTuple):
    """The servers for all names, and those for the names below a suffix (in wire form)."""

    default: tuple[Upstream, ...] = ()
    by_suffix: Mapping[bytes, tuple[Upstream, ...]] = {}

    def servers_for(self, name: bytes) -> tuple[Upstream, ...]:
        """Return the servers of the longest suffix in whole labels."""
        if self.by_suffix:
            position = 0
            while True:
                found = self.by_suffix.get(name[position:])
                if found is not None:
                    return found
                if not name[position]:
                    break
                position += 1 + name[position]
        return self.default


def without_ourselves(
    servers: Iterable[Upstream],
    listening: Iterable[tuple[str, int]],
    *,
    is_local: Callable[[str], bool],
) -> tuple[Upstream, ...]:
    """Leave out the addresses that this server listens on.

    is_local: whether an address is one of this machine's; called only if it listens on all.
    """
    ours = [(_address(host), port) for host, port in listening]

    def is_ours(server: Upstream) -> bool:
        address = _address(server.host)
        if address.is_unspecified:  # a client reads it as the loopback address
            address = ipaddress.ip_address("127.0.0.1" if address.version == 4 else "::1")
        for own, port in ours:
            if port != server.port:
                continue
            if own == address:
                return True
            if own.is_unspecified and is_local(str(address)):
                return True
        return False

    return tuple(server for server in servers if not is_ours(server))


def _address(host: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address:
    address = ipaddress.ip_address(host)
    if address.version == 6 and address.ipv4_mapped is not None:
        return address.ipv4_mapped
    return address


class Health:
    """Servers that failed lately are asked last, for a while."""

    def __init__(self) -> None:
        self._failures: dict[Upstream, int] = {}
        self._last_until: dict[Upstream, float] = {}

    def succeeded(self, server: Upstream) -> None:
        """Forget the failures of a server."""
        self._failures.pop(server, None)
        self._last_until.pop(server, None)

    def failed(self, server: Upstream, now: float) -> None:
        """A server did not reply, or could not be asked."""
        count = self._failures.get(server, 0) + 1
        self._failures[server] = count
        if count >= _FAILURES_UNTIL_LAST:
            self._last_until[server] = now + _LAST_FOR_S

    def order(self, servers: tuple[Upstream, ...], now: float) -> tuple[Upstream, ...]:
        """Return the servers in their order, but those that failed lately after the others."""
        if not self._last_until:
            return servers
        return tuple(sorted(servers, key=lambda server: self._last_until.get(server, now) > now))

    def keep_only(self, servers: Iterable[Upstream]) -> None:
        """Forget servers that are not asked any more."""
        kept = set(servers)
        histories: tuple[dict[Upstream, int] | dict[Upstream, float], ...]
        histories = (self._failures, self._last_until)
        for known in histories:
            for server in known.keys() - kept:
                del known[server]
