"""One accepted connection, from the accept call to its end."""

import socket
from collections.abc import Callable
from typing import NamedTuple

from mesh_listening.acceptors._refusal_log import RefusalLog
from mesh_listening.limits._admission import Share, shares_of_address, shares_of_process
from mesh_listening.limits._limits import ConnectionLimits
from mesh_listening.limits._refusals import Reason
from mesh_listening.sockets._peers import (
    PeerCredentials,
    as_grpc_prints,
    credentials_of,
    peer_of_address,
)


class Remote(NamedTuple):
    """The other end of a connection, as the kernel knows it.

    address: as gRPC prints it; `unix:` on a Unix socket. shares: the connection is counted under
    these; the first is the name of the peer in the log. credentials: the process on a Unix socket.
    """

    address: str
    shares: tuple[Share, ...]
    credentials: PeerCredentials | None


def remote_of(accepted: socket.socket, address: object, limits: ConnectionLimits) -> Remote:
    """Return the other end of an accepted socket. Raises OSError."""
    if isinstance(address, tuple):
        shares = shares_of_address(peer_of_address(address[0]), limits)
        return Remote(as_grpc_prints(address[0], address[1]), shares, None)
    credentials = credentials_of(accepted)
    return Remote("unix:", shares_of_process(credentials, limits), credentials)


class Connection:
    """One accepted connection; its port counts it until it is released."""

    __slots__ = ("_refusals", "_released", "remote", "socket")

    def __init__(
        self,
        accepted: socket.socket,
        remote: Remote,
        *,
        refusals: RefusalLog,
        released: Callable[["Connection"], None],
    ) -> None:
        self.socket: socket.socket | None = accepted
        self.remote = remote
        self._refusals = refusals
        self._released: Callable[[Connection], None] | None = released

    @property
    def peer(self) -> str:
        """The name of the peer in the log."""
        return self.remote.shares[0].name

    def detach_socket(self) -> socket.socket:
        """Return the socket, which from now on the caller closes."""
        detached, self.socket = self.socket, None
        if detached is None:
            raise RuntimeError("the socket of a connection can be detached once")
        return detached

    def record(self, reason: Reason) -> None:
        """Count and log that the connection ends for this reason."""
        if self._released is not None:
            self._refusals.record(reason, self.peer)

    def count(self, reason: Reason) -> None:
        """Count that the connection ends for this reason; the caller logs it."""
        if self._released is not None:
            self._refusals.count(reason)

    def release(self) -> None:
        """The connection has ended and is not counted any more."""
        released, self._released = self._released, None
        if released is not None:
            released(self)
        if self.socket is not None:
            self.socket.close()
            self.socket = None
