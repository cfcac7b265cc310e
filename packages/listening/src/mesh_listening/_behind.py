"""Who is behind a connection to the server inside.

That server listens on loopback and sees only connections of this process's own. What is known of
the real peer is kept here under the IP address and port our end is bound to. The kernel vouches for
these: while our end has them nobody else's can in this network namespace, and from another one
nobody reaches our loopback. A name of a Unix socket would be no such proof: an abstract one is free
in every other network namespace, and a path is but a text that another mount namespace can bind.
"""

from typing import NamedTuple
from urllib.parse import unquote

from mesh_listening._peers import PeerCredentials


class Behind(NamedTuple):
    """The peer of a connection that came through a front.

    address: as gRPC prints it; `unix:` on a Unix socket. certificate_chain: DER, leaf first, as
    verified; empty if it showed none. credentials: the process on a Unix socket.
    """

    address: str
    encrypted: bool = False
    certificate_chain: tuple[bytes, ...] = ()
    credentials: PeerCredentials | None = None


known: dict[str, Behind] = {}
"""By the address of our end, as gRPC prints it. An entry goes before our end is closed."""


def behind(peer: str) -> Behind | None:
    """Who is behind `context.peer()`; None: a connection that no front made."""
    # Some versions of gRPC write the brackets of IPv6 as %5B and %5D.
    return known.get(unquote(peer) if "%" in peer else peer)
