"""The admission of clients: what is known of a peer, and the hook that decides."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Generic, Protocol, TypeVar

import msgspec

from mesh_listening import PeerCredentials, peer_name
from xds_server.protocol._node import Node

C_co = TypeVar("C_co", covariant=True)


@dataclass(frozen=True, slots=True, kw_only=True)
class Peer:
    """The other end of a connection.

    `certificate_chain` is DER, leaf first, verified against the listener's client roots; empty
    if the client showed none. `process` is the process that connected to a Unix socket. `metadata`
    are the call's text headers, names in lower case; they may carry a token, so they are left out
    of the repr.
    """

    address: str
    encrypted: bool = False
    certificate_chain: tuple[bytes, ...] = field(default=(), repr=False)
    process: PeerCredentials | None = None
    metadata: Mapping[str, str] = field(default_factory=dict, repr=False)


def holder_of(identities: Sequence[str], peer: Peer) -> str:
    """Return the name under which what a client takes is counted.

    It is the first identity that was proven; if none was, all connections of a host, of a process
    of our own user, or of another user have one name. What a node says decides nothing.
    """
    return identities[0] if identities else peer_name(peer.address, peer.process)


class Admission(msgspec.Struct, Generic[C_co], frozen=True, kw_only=True):
    """The result of admitting a client: its proven identities, and the caller's view of it.

    `drain_time_s` is how long its listeners drain; None: as the server's configuration says.
    """

    identities: tuple[str, ...] = ()
    context: C_co
    drain_time_s: float | None = None


class Admit(Protocol[C_co]):
    """Decides on a new stream once its first request has named the node."""

    async def __call__(self, node: Node, peer: Peer, /) -> Admission[C_co]:
        """Admit the client, or raise `Refused` with the status that the stream is to end with."""
        ...
