"""Users and groups as the owners of sockets: a socket has those that its thread opens files as."""

from __future__ import annotations

import os

from mesh_traffic_capture._errors import CaptureFailed
from mesh_traffic_capture.kernel._files import read_text

TYPE_CHECKING = False
if TYPE_CHECKING:
    import socket
    from collections.abc import Iterable

_KEEP = 0xFFFFFFFF
"""An id that setfsuid refuses: it returns the present one."""


def opened_by(uid: int, gid: int, family: int, kind: int) -> socket.socket:
    """Open a socket as another user; raises `CaptureFailed` if this thread may not."""
    import socket

    if (uid, gid) == (os.geteuid(), os.getegid()):
        return socket.socket(family, kind)
    import ctypes

    libc = ctypes.CDLL(None)
    user, group = libc.setfsuid(_KEEP), libc.setfsgid(_KEEP)
    try:
        libc.setfsgid(gid)
        libc.setfsuid(uid)
        if (libc.setfsuid(_KEEP), libc.setfsgid(_KEEP)) != (uid, gid):
            raise CaptureFailed(f"opening a socket as user {uid} and group {gid} takes root")
        return socket.socket(family, kind)
    finally:
        libc.setfsuid(user)
        libc.setfsgid(group)


def unmapped(ids: Iterable[int], *, groups: bool = False) -> tuple[int, ...]:
    """Return the ids that no process of this user namespace can have."""
    file = f"/proc/thread-self/{'gid_map' if groups else 'uid_map'}"
    try:
        lines = [tuple(map(int, line.split())) for line in read_text(file).splitlines()]
    except (OSError, ValueError):
        return ()
    return tuple(
        each
        for each in sorted(ids)
        if not any(first <= each < first + count for first, _, count in lines)
    )
