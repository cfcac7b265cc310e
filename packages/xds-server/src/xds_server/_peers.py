"""Who is behind a gRPC call.

Calls that came through the TLS front reach gRPC from a loopback socket of the front's own; what
is known of the real peer is kept here under that socket's address, which is the front's alone
for as long as it is open.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import grpc.aio

from ._admission import Peer

_behind_front: dict[str, Peer] = {}


@contextmanager
def known_peer(inner_address: str, peer: Peer) -> Iterator[None]:
    """While the context lasts, calls from `inner_address` are calls from `peer`."""
    _behind_front[inner_address] = peer
    try:
        yield
    finally:
        del _behind_front[inner_address]


def came_through_front(context: grpc.aio.ServicerContext[Any, Any]) -> bool:
    return context.peer() in _behind_front


def peer_of(context: grpc.aio.ServicerContext[Any, Any]) -> Peer:
    """Who made this call, for further services on the same listeners."""
    address = context.peer()
    front = _behind_front.get(address)
    metadata = {
        key: value for key, value in context.invocation_metadata() or () if isinstance(value, str)
    }
    if front is None:
        return Peer(address=address, metadata=metadata)
    return Peer(
        address=front.address,
        encrypted=True,
        certificate_chain=front.certificate_chain,
        metadata=metadata,
    )
