"""Keeps strangers off the port behind the TLS front.

That port is plaintext on loopback, so any process of the machine can connect to it. A call is
let through only if its connection is one that the front opened itself.
"""

from __future__ import annotations

import inspect
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import TYPE_CHECKING, Any

import grpc
import grpc.aio

from ._peers import came_through_front

if TYPE_CHECKING:
    ServerInterceptor = grpc.aio.ServerInterceptor[Any, Any]
else:  # gRPC's stubs know type parameters that its classes do not have.
    ServerInterceptor = grpc.aio.ServerInterceptor

_REFUSAL = (grpc.StatusCode.UNAUTHENTICATED, "this port is reached through its TLS listener only")

_MAKERS: dict[str, Callable[..., Any]] = {
    "unary_unary": grpc.unary_unary_rpc_method_handler,
    "unary_stream": grpc.unary_stream_rpc_method_handler,
    "stream_unary": grpc.stream_unary_rpc_method_handler,
    "stream_stream": grpc.stream_stream_rpc_method_handler,
}


class OnlyThroughFront(ServerInterceptor):
    """Refuses every call that did not come through the front, whatever service it is for."""

    async def intercept_service(
        self,
        continuation: Callable[[grpc.HandlerCallDetails], Awaitable[Any]],
        handler_call_details: grpc.HandlerCallDetails,
    ) -> Any:
        handler = await continuation(handler_call_details)
        if handler is None:
            return None
        kind = next(kind for kind in _MAKERS if getattr(handler, kind) is not None)
        return _MAKERS[kind](
            _guarded(getattr(handler, kind)),
            request_deserializer=handler.request_deserializer,
            response_serializer=handler.response_serializer,
        )


def _guarded(behaviour: Callable[[Any, Any], Any]) -> Callable[[Any, Any], Any]:
    """The same behaviour in the same shape: gRPC tells coroutines and generators apart."""
    if inspect.isasyncgenfunction(behaviour):

        async def generate(request: Any, context: Any) -> AsyncIterator[Any]:
            if not came_through_front(context):
                await context.abort(*_REFUSAL)
            async for response in behaviour(request, context):
                yield response

        return generate
    if inspect.iscoroutinefunction(behaviour):

        async def answer(request: Any, context: Any) -> Any:
            if not came_through_front(context):
                await context.abort(*_REFUSAL)
            return await behaviour(request, context)

        return answer

    def answer_in_thread(request: Any, context: Any) -> Any:
        if not came_through_front(context):
            context.abort(*_REFUSAL)
        return behaviour(request, context)

    return answer_in_thread
