"""The real peer of a connection to the server inside.

That server listens on loopback and gets its connections from the acceptor, in this process. The
real peer is kept here under the IP address and port that the acceptor's end is bound to. The kernel
guarantees that no other socket of this network namespace has the same, and another namespace can't
reach this loopback. The name of a Unix socket would be no such proof: an abstract name is free in
every other network namespace, and a path can be bound again in another mount namespace.
"""

from typing import NamedTuple, Protocol
from urllib.parse import unquote

from mesh_listening.sockets._peers import PeerCredentials


class AcceptedPeer(NamedTuple):
    """The peer of a connection that came through an acceptor.

    address: as gRPC prints it; `unix:` on a Unix socket. certificate_chain: DER, leaf first, as
    verified; empty if the peer showed none. credentials: the process on a Unix socket.
    """

    address: str
    encrypted: bool = False
    certificate_chain: tuple[bytes, ...] = ()
    credentials: PeerCredentials | None = None


class AcceptedConnection(Protocol):
    """A connection that an acceptor made to the server inside."""

    peer: AcceptedPeer

    def disconnect(self) -> None:
        """End both of its sides at once, and count it as not reading."""


by_inner_address: dict[str, AcceptedConnection] = {}
"""By the address of the acceptor's end, as gRPC prints it. Removed before that end is closed."""


def accepted_peer(address: str) -> AcceptedPeer | None:
    """Return the real peer of `context.peer()`; None for a connection that no acceptor made."""
    found = _find(address)
    return None if found is None else found.peer


def disconnect(address: str) -> bool:
    """End the connection of `context.peer()` now, with all its streams; False if there is none.

    For clients that do not read: the status of a stream is sent after the messages written to it,
    and gRPC for asyncio can't reset a stream. gRPC ends the streams as when a client disconnects.
    The port counts it (`Reason.NOT_READ`); the caller, who knows the client, logs it.
    """
    found = _find(address)
    if found is None:
        return False
    found.disconnect()
    return True


def _find(peer: str) -> AcceptedConnection | None:
    # Some versions of gRPC write the brackets of IPv6 as %5B and %5D.
    return by_inner_address.get(unquote(peer) if "%" in peer else peer)
