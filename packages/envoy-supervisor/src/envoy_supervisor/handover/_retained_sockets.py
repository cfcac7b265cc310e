"""Listening sockets of an Envoy, held open by this process too: duplicates of descriptors.

While any process holds a listening socket, the kernel completes connections to it and lets them
wait. That is wanted after Envoy has died, and a trap as soon as Envoy itself has closed the socket:
connections would wait for a process that never accepts them. So each retained socket remembers
which descriptor of Envoy's it came from, and can be compared with it.
"""

from __future__ import annotations

import os
import socket
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path

import msgspec
from msgspec.structs import replace

STDERR = 2  # as long as a process runs, it has this one
BACKLOG = 4096
"""Connections that may wait for a new Envoy on each socket; net.core.somaxconn bounds it too."""


class SocketName(msgspec.Struct, frozen=True, kw_only=True):
    """Names a listening socket in the way that Envoys name it to each other.

    address: as in `tcp://127.0.0.1:80`. worker: the index of the thread that the socket belongs to.
    """

    address: str
    worker: int


class RetainedSocket(msgspec.Struct, frozen=True, kw_only=True):
    """One kernel socket. `envoy_descriptor` is the number it has in the Envoy process."""

    socket: socket.socket
    inode: int
    envoy_descriptor: int


class RetainedSockets:
    """The sockets of one process. A socket that workers share has several names."""

    def __init__(self, *, pid: int) -> None:
        self.pid = pid
        self._named: dict[SocketName, RetainedSocket] = {}
        self._sockets: dict[int, RetainedSocket] = {}
        self._passed: set[int] = set()

    def __len__(self) -> int:
        return len(self._sockets)

    def add(self, name: SocketName, descriptor: int, envoy_descriptor: int) -> bool:
        """Retain a descriptor. Closes it and returns False if it is no listening socket."""
        try:
            received = socket.socket(fileno=descriptor)
        except OSError:
            os.close(descriptor)
            return False
        if not received.getsockopt(socket.SOL_SOCKET, socket.SO_ACCEPTCONN):
            received.close()
            return False
        inode = os.fstat(descriptor).st_ino
        if (known := self._sockets.get(inode)) is not None:
            received.close()
        else:
            known = self._sockets[inode] = RetainedSocket(
                socket=received, inode=inode, envoy_descriptor=envoy_descriptor
            )
        self._named[name] = known
        return True

    def pass_on(self, name: SocketName) -> int | None:
        """Return the descriptor to give to a new Envoy, and remembers that it was given."""
        retained = self._named.get(name)
        if retained is None:
            return None
        self._passed.add(retained.inode)
        return retained.socket.fileno()

    @property
    def passed(self) -> int:
        """The number of sockets that a new Envoy was given."""
        return len(self._passed & self._sockets.keys())

    def let_connections_wait(self) -> None:
        """Lets more connections wait than Envoy allowed, as none accepts them. Raises OSError."""
        self._passed.clear()
        for retained in self._sockets.values():
            retained.socket.listen(BACKLOG)

    def envoy_has_all(self) -> bool:
        """Return whether Envoy has every one of these open. Raises OSError if that cannot be seen.

        An Envoy that has died, or is just dying, has closed none on purpose.
        """
        for retained in self._sockets.values():
            try:
                target = Path(f"/proc/{self.pid}/fd/{retained.envoy_descriptor}").readlink()
            except FileNotFoundError:
                return not Path(f"/proc/{self.pid}/fd/{STDERR}").is_symlink()
            if target.name != f"socket:[{retained.inode}]":
                return False
        return True

    def keep_those_of(self, pid: int) -> None:
        """Close the sockets that another process has not taken over, and belongs to it then."""
        descriptors = _descriptors_by_inode(pid)
        self.pid = pid
        self._close(self._sockets.keys() - descriptors.keys())
        for inode, retained in self._sockets.items():
            self._sockets[inode] = replace(retained, envoy_descriptor=descriptors[inode])
        self._named = {n: self._sockets[retained.inode] for n, retained in self._named.items()}

    def close_not_passed(self) -> None:
        """Close the sockets that no new Envoy has asked for."""
        self._close(self._sockets.keys() - self._passed)

    def close(self) -> None:
        """Close all; connections that wait on a socket that no other process has are reset."""
        self._close(tuple(self._sockets))

    def _close(self, inodes: Iterable[int]) -> None:
        for inode in inodes:
            self._sockets.pop(inode).socket.close()
        self._named = {n: each for n, each in self._named.items() if each.inode in self._sockets}


def _descriptors_by_inode(pid: int) -> dict[int, int]:
    """Return the sockets of a process; none if this process may not look."""
    descriptors: dict[int, int] = {}
    try:
        for link in Path(f"/proc/{pid}/fd").iterdir():
            with suppress(FileNotFoundError):  # closed meanwhile
                kind, _, inode = link.readlink().name.partition(":")
                if kind == "socket":
                    descriptors[int(inode.strip("[]"))] = int(link.name)
    except OSError:
        pass
    return descriptors
