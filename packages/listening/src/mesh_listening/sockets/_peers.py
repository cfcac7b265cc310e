"""The process or address at the other end of a connection, and which processes may connect."""

import errno
import ipaddress
import os
import socket
import struct
from collections.abc import Callable, Collection
from typing import NamedTuple
from urllib.parse import unquote

from mesh_listening._errors import ListenError

_UCRED = struct.Struct("iII")  # struct ucred of unix(7): pid, uid, gid
_GID = struct.Struct("I")
_SO_PEERGROUPS = 59  # asm-generic/socket.h; Python has no name for it
_MOST_BYTES = 1024  # that Python's getsockopt takes: 256 groups
_MOST_GROUPS = 65536  # NGROUPS_MAX of Linux


class PeerCredentials(NamedTuple):
    """The process that connected, as the kernel recorded it at that moment.

    pid is 0 for a process outside our PID namespace. Numbers are reused: the process with this pid
    connected, and may have exited since. groups: the supplementary ones, without `gid`.
    """

    pid: int
    uid: int
    gid: int
    groups: frozenset[int] = frozenset()


class AllowedPeers(NamedTuple):
    """The processes that may connect. Each condition that is given has to hold; None: any.

    uids, gids: numeric; one of a process's primary and supplementary groups has to be in gids.
    pids: called for each connection, as the allowed process may be restarted; it must not block.
    """

    uids: frozenset[int] | None = None
    gids: frozenset[int] | None = None
    pids: Callable[[], Collection[int]] | None = None

    def refusal(self, peer: PeerCredentials) -> str | None:
        """Return why this peer may not connect; None if it may."""
        if self.uids is not None and peer.uid not in self.uids:
            return f"uid {peer.uid} is not allowed"
        if self.gids is not None and peer.gid not in self.gids and not self.gids & peer.groups:
            others = "" if not peer.groups else f", nor is any of its {len(peer.groups)} others"
            return f"gid {peer.gid} is not allowed{others}"
        if self.pids is not None and peer.pid not in self.pids():
            return f"pid {peer.pid} is not allowed"
        return None


def credentials_of(connection: socket.socket) -> PeerCredentials:
    """Return the process at the other end, as the kernel knows it. Raises OSError."""
    data = connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _UCRED.size)
    pid, uid, gid = _UCRED.unpack(data)
    return PeerCredentials(pid=pid, uid=uid, gid=gid, groups=_groups_of(connection) - {gid})


def check_credentials_supported() -> None:
    """Raise ListenError on systems without SO_PEERCRED."""
    if not hasattr(socket, "SO_PEERCRED"):
        raise ListenError("checking peers needs SO_PEERCRED, which this system lacks")


def _groups_of(connection: socket.socket) -> frozenset[int]:
    try:
        data = connection.getsockopt(socket.SOL_SOCKET, _SO_PEERGROUPS, _MOST_BYTES)
    except OSError as error:
        if error.errno != errno.ERANGE:
            raise
        data = _many_groups_of(connection)
    return frozenset(gid for (gid,) in _GID.iter_unpack(data))


def _many_groups_of(connection: socket.socket) -> bytes:
    import ctypes

    libc = ctypes.CDLL(None, use_errno=True)
    buffer = ctypes.create_string_buffer(_MOST_GROUPS * _GID.size)
    length = ctypes.c_uint(len(buffer))
    asked = (connection.fileno(), socket.SOL_SOCKET, _SO_PEERGROUPS, buffer, ctypes.byref(length))
    if libc.getsockopt(*asked) != 0:
        number = ctypes.get_errno()
        raise OSError(number, "getsockopt SO_PEERGROUPS")
    return buffer.raw[: length.value]


def peer_of_address(host: str) -> str:
    """Return the name that connections from an IP address are counted under.

    For IPv6 that is its /64 network: a host that has one address of it usually has them all.
    """
    if ":" not in host:
        return host
    address = ipaddress.IPv6Address(host.partition("%")[0])
    if address.ipv4_mapped is not None:
        return str(address.ipv4_mapped)
    if address.is_loopback:
        return str(address)
    return str(ipaddress.IPv6Network((address, 64), strict=False))


def peer_name(address: str, process: PeerCredentials | None) -> str:
    """Return the name that what a peer takes is counted under, whatever its connections are.

    address: as `AcceptedPeer` has it. It is the host, an IPv6 network of 64 bits, a process of our
    own user, or all processes of another user, of which a user has as many as it likes.
    """
    if process is not None:
        if process.uid == os.geteuid():
            return f"process {process.pid}"
        return f"user {process.uid}"
    kind, _, place = unquote(address).partition(":")
    host = place.rpartition(":")[0].strip("[]")
    if kind not in ("ipv4", "ipv6") or not host:
        return address
    try:
        return peer_of_address(host)
    except ValueError:
        return host


def as_grpc_prints(host: str, port: int) -> str:
    """Return an address as gRPC prints a peer's, such as `ipv4:10.0.0.1:4711`."""
    if ":" not in host:
        return f"ipv4:{host}:{port}"
    mapped = ipaddress.IPv6Address(host.partition("%")[0]).ipv4_mapped
    return f"ipv6:[{host}]:{port}" if mapped is None else f"ipv4:{mapped}:{port}"
