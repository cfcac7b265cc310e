"""CSDS on Envoy's socket: standard tools ask the relay what each Envoy has, and what it refused.

https://www.envoyproxy.io/docs/envoy/latest/api-v3/service/status/v3/csds.proto
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

import grpc
import grpc.aio

from mesh_listening import disconnect
from mesh_protowire import WireError
from xds_proxy.services._status_messages import (
    Client,
    UnknownMatcher,
    read_request,
    write_response,
)
from xds_proxy.writing._message_writer import MessageWriter, WriteBounds

if TYPE_CHECKING:
    GenericRpcHandler = grpc.GenericRpcHandler[bytes, bytes]
    ServicerContext = grpc.aio.ServicerContext[bytes, bytes]
else:  # gRPC's stubs know type parameters that its classes do not have.
    GenericRpcHandler = grpc.GenericRpcHandler
    ServicerContext = grpc.aio.ServicerContext

log = logging.getLogger("xds_proxy")

_SERVICE = "/envoy.service.status.v3.ClientStatusDiscoveryService/"
_METHODS = frozenset({f"{_SERVICE}FetchClientStatus", f"{_SERVICE}StreamClientStatus"})
_MOST_CALLS = 8
_MOST_REQUEST_BYTES = 64 * 1024
_FEW = 1000
"""So many resources are described on the event loop; more in a thread."""


class ClientStatusHandler(GenericRpcHandler):
    """The service, both its methods: on the wire a single call is a stream of one message."""

    def __init__(self, clients: Callable[[], Sequence[Client]], *, bounds: WriteBounds) -> None:
        """clients: returns every Envoy that has a stream open, with what it has at the moment."""
        self._clients = clients
        self._bounds = bounds
        self._calls = 0

    def service(
        self, handler_call_details: grpc.HandlerCallDetails
    ) -> grpc.RpcMethodHandler[bytes, bytes] | None:
        if handler_call_details.method not in _METHODS:
            return None

        async def serve(_: object, caller: ServicerContext) -> None:
            await self._serve(caller)

        return grpc.stream_stream_rpc_method_handler(serve)

    async def _serve(self, caller: ServicerContext) -> None:
        if self._calls >= _MOST_CALLS:
            details = f"{_MOST_CALLS} calls for client status are open, which is the most"
            await caller.abort(grpc.StatusCode.RESOURCE_EXHAUSTED, details)

        def overdue(waited_s: float, size: int, reason: str) -> None:
            facts = {"waited_s": round(waited_s, 1), "bytes": size, "reason": reason}
            log.warning("a connection that asked for client status is ended", extra=facts)
            disconnect(caller.peer())

        writer = MessageWriter(self._bounds.to_envoys, overdue)
        self._calls += 1
        try:
            while isinstance(request := await _next(caller), bytes):
                await writer.write(caller, await self._answer(request, caller))
        except grpc.aio.InternalError:
            return  # the caller's connection has ended
        finally:
            self._calls -= 1
            writer.forget()

    async def _answer(self, request: bytes, caller: ServicerContext) -> bytes:
        if len(request) > _MOST_REQUEST_BYTES:
            details = f"a request of {len(request)} bytes; at most {_MOST_REQUEST_BYTES} are taken"
            await caller.abort(grpc.StatusCode.RESOURCE_EXHAUSTED, details)
        try:
            asked = read_request(request)
        except (WireError, UnknownMatcher) as error:
            await caller.abort(grpc.StatusCode.INVALID_ARGUMENT, str(error))
        clients = [client for client in self._clients() if asked(client)]
        if sum(len(named) for each in clients for named in each.resources.values()) > _FEW:
            return await asyncio.to_thread(write_response, clients)
        return write_response(clients)


async def _next(caller: ServicerContext) -> object:
    return await caller.read()
