"""The endpoints that clusters wait for before they take traffic.

Envoy warms a changed EDS cluster anew: it takes no traffic until its endpoints arrive again,
even if they are the same. A delta client does not ask for them, and a state-of-the-world client
asks in a way that looks like an ACK, so a server has to send them of its own accord.
https://github.com/envoyproxy/envoy/issues/13009
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from xds_server.protocol._references import endpoints_of
from xds_server.protocol._resource import Resource
from xds_server.protocol._resources_by_name import NO_NAMES


class Warming:
    """The endpoints that the clusters sent on one stream still wait for.

    A client may ask for them only later, or not at all: a delta client that reconnects says that
    it has them, and warms its clusters all the same.
    """

    __slots__ = ("_missing", "_unconfirmed", "awaited")

    def __init__(self) -> None:
        self.awaited: frozenset[str] = NO_NAMES
        self._unconfirmed: frozenset[str] = NO_NAMES  # awaited and sent, but not answered
        self._missing: frozenset[str] = NO_NAMES  # awaited, and found not to exist

    def clusters_sent(self, clusters: Iterable[Resource]) -> None:
        """Await the endpoints of clusters that are sent now."""
        new = (name for cluster in clusters if (name := endpoints_of(cluster)))
        self.awaited = self.awaited.union(new) or NO_NAMES

    def clusters_removed(self, clusters: Iterable[Resource]) -> None:
        """Await the endpoints of clusters that are removed now no longer."""
        self.endpoints_sent({name for cluster in clusters if (name := endpoints_of(cluster))})

    def endpoints_confirmed(self) -> None:
        """Take note that the client has answered the last endpoints it was sent."""
        self._unconfirmed = NO_NAMES

    def in_doubt(self) -> frozenset[str]:
        """Return the endpoints that the client may lack if the stream breaks, and not ask for."""
        return self.awaited | self._unconfirmed

    def resume(self, names: frozenset[str]) -> None:
        """Await endpoints that were in doubt on the client's last stream."""
        self.awaited |= names

    def endpoints_sent(self, names: Iterable[str]) -> None:
        """Await endpoints that are sent now no longer."""
        if self:
            names = frozenset(names)
            self._unconfirmed = (self._unconfirmed | (self.awaited & names)) or NO_NAMES
            self.awaited = (self.awaited - names) or NO_NAMES
            self._missing = (self._missing - names) or NO_NAMES

    def stop_awaiting(self, covers: Callable[[str], bool]) -> frozenset[str]:
        """Stop awaiting the names that `covers` holds for, and return them.

        They count as missing until they are sent.
        """
        names = frozenset(filter(covers, self.awaited))
        self.awaited = (self.awaited - names) or NO_NAMES
        self._missing = (self._missing | names) or NO_NAMES
        return names

    def stop_awaiting_all(self) -> None:
        """Stop awaiting any endpoints, as the client does not ask for them."""
        self.stop_awaiting(lambda _name: True)

    def is_waiting(self, cluster: Resource) -> bool:
        """Return whether a cluster has not got its endpoints, so that no route can use it."""
        name = endpoints_of(cluster)
        return name in self.awaited or name in self._missing

    def __bool__(self) -> bool:
        return bool(self.awaited or self._missing)
