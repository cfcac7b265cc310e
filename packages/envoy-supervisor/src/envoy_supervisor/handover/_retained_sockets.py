"""Listening sockets of an Envoy that we hold too: duplicates of descriptors, not new sockets.

While somebody holds one, the kernel completes connections to it and lets them wait. That is what
is wanted after Envoy has died, and a trap as soon as Envoy itself has closed it: connections would
wait for nobody. So each remembers which descriptor of Envoy's it came from, and can be compared.
"""

from __future__ import annotations

import os
import socket
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path

STDERR = 2  # as long as a process runs, it has this one
WAITING_MOST = 4096
"""Connections that may wait for a new Envoy on each socket; net.core.somaxconn bounds it too."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """Which socket it is, as Envoys name it to each other.

    address: as in `tcp://127.0.0.1:80`. worker: the thread whose socket it is.
    """

    address: str
    worker: int


@dataclass(frozen=True, slots=True, kw_only=True)
class HeldSocket:
    """One kernel socket. `number` is Envoy's own descriptor of it."""

    socket: socket.socket
    inode: int
    number: int


class HeldSockets:
    """The sockets of one process. Workers that share a socket have several places for it."""

    def __init__(self, *, pid: int) -> None:
        self.pid = pid
        self._places: dict[Place, HeldSocket] = {}
        self._sockets: dict[int, HeldSocket] = {}
        self._claimed: set[int] = set()

    def __len__(self) -> int:
        return len(self._sockets)

    def add(self, place: Place, descriptor: int, number: int) -> bool:
        """Take over a descriptor; False, and it is closed, if it is no listening socket."""
        try:
            taken = socket.socket(fileno=descriptor)
        except OSError:
            os.close(descriptor)
            return False
        if not taken.getsockopt(socket.SOL_SOCKET, socket.SO_ACCEPTCONN):
            taken.close()
            return False
        inode = os.fstat(descriptor).st_ino
        if (known := self._sockets.get(inode)) is not None:
            taken.close()
        else:
            known = self._sockets[inode] = HeldSocket(socket=taken, inode=inode, number=number)
        self._places[place] = known
        return True

    def claim(self, address: str, worker: int) -> int | None:
        """The descriptor for a place, for somebody who is given it; None if there is none."""
        held = self._places.get(Place(address=address, worker=worker))
        if held is None:
            return None
        self._claimed.add(held.inode)
        return held.socket.fileno()

    @property
    def claimed(self) -> int:
        """How many sockets were given away."""
        return len(self._claimed & self._sockets.keys())

    def begin_handover(self) -> None:
        """Nobody accepts: let more connections wait than Envoy allowed. Raises OSError."""
        self._claimed.clear()
        for held in self._sockets.values():
            held.socket.listen(WAITING_MOST)

    def still_theirs(self) -> bool:
        """Whether Envoy has every one of these open. Raises OSError if that cannot be seen.

        One that has died, or is just dying, has closed none on purpose.
        """
        for held in self._sockets.values():
            try:
                target = Path(f"/proc/{self.pid}/fd/{held.number}").readlink()
            except FileNotFoundError:
                return not Path(f"/proc/{self.pid}/fd/{STDERR}").is_symlink()
            if target.name != f"socket:[{held.inode}]":
                return False
        return True

    def belong_to(self, pid: int) -> None:
        """Go on with another process, which has inherited these; what it has not is closed."""
        numbers = _sockets_of(pid)
        self.pid = pid
        self._close(self._sockets.keys() - numbers.keys())
        for inode, held in self._sockets.items():
            self._sockets[inode] = replace(held, number=numbers[inode])
        self._places = {p: self._sockets[held.inode] for p, held in self._places.items()}

    def close_unclaimed(self) -> None:
        """Close what nobody asked for."""
        self._close(self._sockets.keys() - self._claimed)

    def close(self) -> None:
        """Close all; connections that wait on a socket nobody else has are reset."""
        self._close(tuple(self._sockets))

    def _close(self, inodes: Iterable[int]) -> None:
        for inode in inodes:
            self._sockets.pop(inode).socket.close()
        self._places = {p: held for p, held in self._places.items() if held.inode in self._sockets}


def _sockets_of(pid: int) -> dict[int, int]:
    """Its sockets: inode to descriptor; none if we may not look."""
    numbers: dict[int, int] = {}
    try:
        for link in Path(f"/proc/{pid}/fd").iterdir():
            with suppress(FileNotFoundError):  # closed meanwhile
                kind, _, inode = link.readlink().name.partition(":")
                if kind == "socket":
                    numbers[int(inode.strip("[]"))] = int(link.name)
    except OSError:
        pass
    return numbers
