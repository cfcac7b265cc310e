"""The endpoints that clusters wait for before they take traffic.

Envoy warms a changed EDS cluster anew: it takes no traffic until its endpoints arrive again,
even if they are the same. A delta client does not ask for them, and a state-of-the-world client
asks in a way that looks like an ACK, so a server has to send them of its own accord.
https://github.com/envoyproxy/envoy/issues/13009

The sets of names are those that equal streams share, wherever all of a set is meant: there may be
ten thousand names in it, and a thousand streams.
"""

from __future__ import annotations

from collections.abc import Container, Mapping

from xds_server.protocol._names import NO_NAMES, shared_names
from xds_server.protocol._references import endpoints_of, endpoints_of_all
from xds_server.protocol._resource import Resource


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

    def on_clusters(self, clusters: Mapping[str, Resource]) -> None:
        """Await the endpoints of clusters that are sent now."""
        self.awaited = _both(self.awaited, endpoints_of_all(clusters))

    def on_cluster_removal(self, clusters: Mapping[str, Resource]) -> None:
        """Stop awaiting the endpoints of clusters that are removed now."""
        self.on_endpoints(endpoints_of_all(clusters))

    def on_endpoints_answer(self) -> None:
        """Take note that the client has answered the last endpoints it was sent."""
        self._unconfirmed = NO_NAMES

    def in_doubt(self) -> frozenset[str]:
        """Return the endpoints that the client may lack if the stream breaks, and not ask for."""
        return self.awaited | self._unconfirmed

    def resume(self, names: frozenset[str]) -> None:
        """Await endpoints that were in doubt on the client's last stream."""
        self.awaited |= names

    def on_endpoints(self, names: Container[str]) -> None:
        """Stop awaiting endpoints that are sent now."""
        if self:
            awaited = self.awaited
            self.awaited = _without(awaited, names)
            sent = awaited if not self.awaited else shared_names(awaited - self.awaited)
            self._unconfirmed = _both(self._unconfirmed, sent)
            self._missing = _without(self._missing, names)

    def stop_awaiting(self, names: frozenset[str]) -> None:
        """Stop awaiting these of the awaited names; they count as missing until they are sent."""
        self.awaited = NO_NAMES if names is self.awaited else shared_names(self.awaited - names)
        self._missing = _both(self._missing, names)

    def is_waiting(self, cluster: Resource) -> bool:
        """Return whether a cluster has not got its endpoints, so that no route can use it."""
        name = endpoints_of(cluster)
        return name in self.awaited or name in self._missing

    def __bool__(self) -> bool:
        return bool(self.awaited or self._missing)


def _both(names: frozenset[str], more: frozenset[str]) -> frozenset[str]:
    """Return the names of both sets, as one of them if that has all of them."""
    if more <= names:
        return names
    return more if names <= more else shared_names(names | more)


def _without(names: frozenset[str], others: Container[str]) -> frozenset[str]:
    """Return the names that are not among the others; the same set if none is."""
    left = [name for name in names if name not in others]
    return names if len(left) == len(names) else shared_names(frozenset(left))
