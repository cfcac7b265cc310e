"""Decides whether a port has room for one more connection, by counting those it has.

Connections are counted for the whole port, and for each share they belong to: their address, or
their process and its user.
"""

import os
from collections import Counter
from typing import NamedTuple

from mesh_listening.limits._limits import ConnectionLimits
from mesh_listening.limits._refusals import Reason
from mesh_listening.sockets._peers import PeerCredentials


class Share(NamedTuple):
    """A name that connections are counted under, and the most of them."""

    name: str
    most: int


class Full(NamedTuple):
    """There is no room for a connection. share: the full one's name; None: the port is full."""

    reason: Reason
    share: str | None


def shares_of_address(peer: str, limits: ConnectionLimits) -> tuple[Share, ...]:
    """Return the shares of a connection over TCP."""
    return (Share(peer, limits.peer),)


def shares_of_process(peer: PeerCredentials, limits: ConnectionLimits) -> tuple[Share, ...]:
    """Return the shares of a connection on a Unix socket: of its process, and of its user.

    A user can start any number of processes, so a limit for each process alone is none. Our own
    user has no share: it can end this process anyway, and Envoy runs as it.
    """
    process = Share(f"pid {peer.pid} uid {peer.uid}", limits.peer)
    if peer.uid == os.geteuid():
        return (process,)
    return (process, Share(f"uid {peer.uid}", limits.user))


class Admission:
    """The connections that a port has room for; does no I/O."""

    def __init__(self, limits: ConnectionLimits) -> None:
        self.limits = limits
        self._admitted: dict[object, tuple[Share, ...]] = {}
        self._of_share: Counter[str] = Counter()

    @property
    def open_connections(self) -> int:
        return len(self._admitted)

    def connections_of(self, share: str) -> int:
        """Return how many connections there are of one share."""
        return self._of_share[share]

    def admit(self, connection: object, shares: tuple[Share, ...]) -> Full | None:
        """Count a connection until it is released, or return why there is no room for it."""
        if len(self._admitted) >= self.limits.port:
            return Full(Reason.PORT_FULL, None)
        for each in shares:
            if self._of_share[each.name] >= each.most:
                return Full(Reason.PEER_FULL, each.name)
        self._admitted[connection] = shares
        for each in shares:
            self._of_share[each.name] += 1
        return None

    def release(self, connection: object) -> None:
        """Make room for another; does nothing for a connection that is not counted."""
        for each in self._admitted.pop(connection, ()):
            self._of_share[each.name] -= 1
            if not self._of_share[each.name]:
                del self._of_share[each.name]
