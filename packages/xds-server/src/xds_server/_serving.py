"""The server on the network: gRPC over its listeners, for as long as the context lasts."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Any, TypeVar

import grpc
import grpc.aio

from ._admission import Peer
from ._listeners import Bound, Listener
from ._server import XdsServer

C = TypeVar("C")


def peer_of(context: grpc.aio.ServicerContext[Any, Any]) -> Peer:
    """Who made this call, for further services on the same listeners."""
    raise NotImplementedError


@asynccontextmanager
async def serving(
    server: XdsServer[C],
    listeners: Sequence[Listener],
    *,
    extra_handlers: Sequence[grpc.GenericRpcHandler[Any, Any]] = (),
) -> AsyncIterator[Bound]:
    """Serve on every listener until the context is left. Raises `ListenError`."""
    raise NotImplementedError
    yield Bound(addresses=())
