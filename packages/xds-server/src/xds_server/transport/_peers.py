"""The peer of a gRPC call: every call comes through an acceptor, which knows its client."""

from __future__ import annotations

from typing import TypeVar

import grpc.aio

from mesh_listening import accepted_peer
from xds_server.streams._admission import Peer

Q = TypeVar("Q")
R = TypeVar("R")


def peer_of(context: grpc.aio.ServicerContext[Q, R]) -> Peer:
    """Return the peer that opened a call, for further services on the same listeners."""
    address = context.peer()
    metadata = {
        key: value for key, value in context.invocation_metadata() or () if isinstance(value, str)
    }
    known = accepted_peer(address)
    if known is None:  # A server without an acceptor.
        return Peer(address=address, metadata=metadata)
    return Peer(
        address=known.address,
        encrypted=known.encrypted,
        certificate_chain=known.certificate_chain,
        process=known.credentials,
        metadata=metadata,
    )
