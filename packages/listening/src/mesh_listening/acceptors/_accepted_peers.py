"""The real peer of a connection to the server inside.

That server gets its connections from the acceptor, in this process. The real peer is kept here
under the address that the acceptor's end is bound to, which the kernel gives to no other socket of
this network namespace. Another network namespace can't reach this loopback. It has abstract names
of its own, the same ones perhaps, but no process there can connect to the Unix socket of the server
inside, as it has no name (`Unnamed`).
"""

from typing import NamedTuple, Protocol
from urllib.parse import unquote

from mesh_listening.limits._request_room import FREE_BYTES, HeldRoom, RequestRoom
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
    """A connection that an acceptor opened to the server inside."""

    peer: AcceptedPeer

    @property
    def room(self) -> RequestRoom:
        """The room for large requests that come on it."""

    def holder(self) -> str:
        """Return the name that they are counted under."""

    def disconnect(self) -> None:
        """End both of its sides at once, and count it as not reading."""

    def sent_bytes(self) -> int:
        """Return how many bytes were written to the peer."""


by_inner_address: dict[str, AcceptedConnection] = {}
"""By the address of the acceptor's end, as gRPC prints it. Removed before that end is closed."""


def accepted_peer(address: str) -> AcceptedPeer | None:
    """Return the real peer of `context.peer()`; None for a connection that no acceptor opened.

    Only for servers behind an acceptor. On a Unix socket of its own a gRPC server believes the name
    that a client has given itself, and in another network namespace that may be a name from here.
    """
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


def sent_bytes(address: str) -> int:
    """Return how many bytes the connection of `context.peer()` has taken; 0 if there is none.

    A peer that reads takes more and more of a long message. Of one that does not, the buffers on
    the way take a few megabytes at most.
    """
    found = _find(address)
    return 0 if found is None else found.sent_bytes()


def hold_room(address: str, size: int) -> HeldRoom | None:
    """Keep the room of a large request that came on the connection of `context.peer()`.

    gRPC has handed it over, and it is in memory for as long as the caller has it: until `release`
    further ones wait as if it was still being received. None for one that needs no room.
    """
    if size <= FREE_BYTES or (found := _find(address)) is None:
        return None
    return HeldRoom(found.room, found.holder(), size)


def _find(peer: str) -> AcceptedConnection | None:
    # Some versions of gRPC write the brackets of IPv6 as %5B and %5D.
    return by_inner_address.get(unquote(peer) if "%" in peer else peer)
