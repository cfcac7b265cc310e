"""Who is at the other end of a Unix socket, by the kernel's word, and who may be."""

import socket
import struct
from collections.abc import Callable, Collection
from dataclasses import dataclass

from mesh_sds._errors import SdsError

_UCRED = struct.Struct("iII")  # struct ucred of unix(7): pid, uid, gid


@dataclass(frozen=True, slots=True, kw_only=True)
class PeerCredentials:
    """The process that connected, as the kernel noted it at that moment.

    pid is 0 for a process that can't be seen from our PID namespace. Numbers are reused: a pid
    says who connected, not that it still runs.
    """

    pid: int
    uid: int
    gid: int


@dataclass(frozen=True, slots=True, kw_only=True)
class AllowedPeers:
    """Who may have secrets. All of what is given has to hold; None: any.

    uids, gids: numeric; gids is held against the primary group only. pids: called at each
    connection, for a process that may be another tomorrow; it must not block.
    """

    uids: frozenset[int] | None = None
    gids: frozenset[int] | None = None
    pids: Callable[[], Collection[int]] | None = None

    def refusal(self, peer: PeerCredentials) -> str | None:
        """Say why this peer is kept out; None: it is let in."""
        if self.uids is not None and peer.uid not in self.uids:
            return f"uid {peer.uid} is not allowed"
        if self.gids is not None and peer.gid not in self.gids:
            return f"gid {peer.gid} is not allowed"
        if self.pids is not None and peer.pid not in self.pids():
            return f"pid {peer.pid} is not allowed"
        return None


def credentials_of(connection: socket.socket) -> PeerCredentials:
    """Ask the kernel. Raises OSError."""
    data = connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _UCRED.size)
    pid, uid, gid = _UCRED.unpack(data)
    return PeerCredentials(pid=pid, uid=uid, gid=gid)


def check_supported() -> None:
    """Raise SdsError on systems whose kernel is not asked in this way."""
    if not hasattr(socket, "SO_PEERCRED"):
        raise SdsError("checking peers needs SO_PEERCRED, which this system lacks; set allow=None")
