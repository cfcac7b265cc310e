"""Who is behind a connection to the server inside.

That server listens on loopback and sees only connections of this process's own. What is known of
the real peer is kept here under the IP address and port our end is bound to. The kernel vouches for
these: while our end has them nobody else's can in this network namespace, and from another one
nobody reaches our loopback. A name of a Unix socket would be no such proof: an abstract one is free
in every other network namespace, and a path is but a text that another mount namespace can bind.
"""

from typing import NamedTuple, Protocol
from urllib.parse import unquote

from mesh_listening.sockets._peers import PeerCredentials


class AcceptedPeer(NamedTuple):
    """The peer of a connection that came through an acceptor.

    address: as gRPC prints it; `unix:` on a Unix socket. certificate_chain: DER, leaf first, as
    verified; empty if it showed none. credentials: the process on a Unix socket.
    """

    address: str
    encrypted: bool = False
    certificate_chain: tuple[bytes, ...] = ()
    credentials: PeerCredentials | None = None


class Known(Protocol):
    """A connection that an acceptor made."""

    peer: AcceptedPeer

    def disconnect(self) -> None:
        """End it now, without a word to either side, and count it as not read."""


known: dict[str, Known] = {}
"""By the address of our end, as gRPC prints it. An entry goes before our end is closed."""


def accepted_peer(address: str) -> AcceptedPeer | None:
    """Who is behind `context.peer()`; None: a connection that no acceptor made."""
    found = _known_as(address)
    return None if found is None else found.peer


def disconnect(address: str) -> bool:
    """End the connection behind `context.peer()` now, with all its streams; False: there is none.

    For clients that do not read: the status of a stream goes out after what was written to it, and
    gRPC for asyncio has no way to reset a stream. gRPC ends the streams as it does when a client
    goes. The port counts it (`Reason.NOT_READ`); saying so in a log is left to the caller, who
    knows the client.
    """
    found = _known_as(address)
    if found is None:
        return False
    found.disconnect()
    return True


def _known_as(peer: str) -> Known | None:
    # Some versions of gRPC write the brackets of IPv6 as %5B and %5D.
    return known.get(unquote(peer) if "%" in peer else peer)
