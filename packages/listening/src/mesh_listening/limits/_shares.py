"""How many connections each peer has, and whether it may have one more."""

import os
from collections import Counter
from typing import NamedTuple

from mesh_listening.limits._limits import ConnectionLimits
from mesh_listening.sockets._peers import PeerCredentials


class Share(NamedTuple):
    """Something that connections are counted under, and the most of them."""

    name: str
    most: int


def shares_of_address(peer: str, limits: ConnectionLimits) -> tuple[Share, ...]:
    """Under what a connection over TCP is counted."""
    return (Share(peer, limits.peer),)


def shares_of_process(peer: PeerCredentials, limits: ConnectionLimits) -> tuple[Share, ...]:
    """Under what a connection on a Unix socket is counted: its process, and its user.

    A user has as many processes as it likes, so counting these alone bounds nobody. Our own user is
    not bounded: it can end us anyway, and Envoy runs as it.
    """
    process = Share(f"pid {peer.pid} uid {peer.uid}", limits.peer)
    if peer.uid == os.geteuid():
        return (process,)
    return (process, Share(f"uid {peer.uid}", limits.user))


class Shares:
    """The connections there are, by what they are counted under."""

    def __init__(self) -> None:
        self._taken: Counter[str] = Counter()

    def taken(self, name: str) -> int:
        return self._taken[name]

    def full(self, shares: tuple[Share, ...]) -> str | None:
        """Name the share that has no room for one more; None: there is room."""
        for each in shares:
            if self._taken[each.name] >= each.most:
                return each.name
        return None

    def take(self, shares: tuple[Share, ...]) -> None:
        for each in shares:
            self._taken[each.name] += 1

    def give_back(self, shares: tuple[Share, ...]) -> None:
        for each in shares:
            self._taken[each.name] -= 1
            if not self._taken[each.name]:
                del self._taken[each.name]
