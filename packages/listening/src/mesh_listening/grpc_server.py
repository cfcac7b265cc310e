"""The gRPC server behind an acceptor: where it listens, its options, and which calls it refuses.

It listens in plaintext: on a Unix socket that only the acceptor reaches, or else on loopback, where
any process of the machine can connect. A call is answered only on a connection that an acceptor
opened.
"""

import inspect
import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import ExitStack, closing, contextmanager
from typing import TYPE_CHECKING, Protocol

import grpc
import grpc.aio

from mesh_listening._errors import ListenError
from mesh_listening.acceptors._accepted_peers import accepted_peer
from mesh_listening.acceptors._inside import Inside, Loopback, Unnamed, for_a_moment
from mesh_listening.limits._limits import FILES_PER_GRPC_CONNECTION, ConnectionLimits
from mesh_listening.sockets._tcp import loopback_host

if TYPE_CHECKING:
    ServerInterceptor = grpc.aio.ServerInterceptor[object, object]
    Handler = grpc.RpcMethodHandler[object, object]
    Behaviour = Callable[[object, "_Context"], object]
else:  # gRPC's stubs know type parameters that its classes do not have.
    ServerInterceptor = grpc.aio.ServerInterceptor

log = logging.getLogger("mesh_listening")

_REFUSAL = (grpc.StatusCode.UNAUTHENTICATED, "this port is reached through its listener only")

NO_COMPRESSION: tuple[str, int] = ("grpc.compression_enabled_algorithms_bitset", 1)
"""The option of servers, and of channels, that take no compressed messages: a kilobyte of one is a
megabyte when it is unpacked, and some versions of gRPC look at its size only then. A server answers
UNIMPLEMENTED; a channel says so in `grpc-accept-encoding`. Bit 0 is GRPC_COMPRESS_NONE."""

_MAKERS: "dict[str, Callable[..., Handler]]" = {
    "unary_unary": grpc.unary_unary_rpc_method_handler,
    "unary_stream": grpc.unary_stream_rpc_method_handler,
    "stream_unary": grpc.stream_unary_rpc_method_handler,
    "stream_stream": grpc.stream_stream_rpc_method_handler,
}


def options(limits: ConnectionLimits) -> list[tuple[str, int]]:
    """Return the options by which gRPC ends idle connections and bounds their number.

    Any process of the machine can connect to a port on loopback. gRPC can't tell these connections
    from the acceptor's, so it accepts as many as the acceptor may have and a part for others.
    """
    fitting = limits.within_open_files(FILES_PER_GRPC_CONNECTION)
    return [
        ("grpc.max_allowed_incoming_connections", fitting.inside),
        # Without this, two servers could share the port, and each would get some of the calls.
        ("grpc.so_reuseport", 0),
        ("grpc.server_handshake_timeout_ms", round(limits.handshake_s * 1000)),
        ("grpc.max_connection_idle_ms", round(limits.idle_s * 1000)),
        # What is received ahead of the calls that read it is in memory: 64 KiB a stream are enough
        # on a connection within this process, and more is what a caller floods.
        ("grpc.http2.bdp_probe", 0),
        NO_COMPRESSION,
    ]


@contextmanager
def listen_inside(server: grpc.aio.Server) -> Iterator[Inside]:
    """Let a server, created with `OnlyThroughAcceptor`, listen for `GrpcAcceptor.forwarding`.

    Leave the block when the server has stopped. Raises ListenError.
    """
    with ExitStack() as stack:
        inside: Inside
        try:
            inside = stack.enter_context(closing(_listen_unnamed(server)))
        except (OSError, RuntimeError) as error:
            log.info("the gRPC server inside listens on loopback", extra={"reason": str(error)})
            inside = listen_on_loopback(server)
        yield inside


def _listen_unnamed(server: grpc.aio.Server) -> Unnamed:
    """Let it listen on a Unix socket without a name. Raises OSError or RuntimeError.

    It takes a directory for temporary files, `/proc`, and a kernel that goes by it.
    """
    with for_a_moment() as path:
        server.add_insecure_port(f"unix:{path}")
        unnamed = Unnamed(path)
    try:
        unnamed.try_once()
    except BaseException:
        unnamed.close()
        raise
    return unnamed


def listen_on_loopback(server: grpc.aio.Server) -> Loopback:
    """Let a server listen on loopback. Raises ListenError."""
    host = loopback_host()
    address = f"[{host}]:0" if ":" in host else f"{host}:0"
    try:
        port = server.add_insecure_port(address)
    except RuntimeError as error:
        reason = str(error).partition(";")[0]
        raise ListenError(f"cannot listen on {address}: {reason}") from error
    return Loopback(host, port)


class OnlyThroughAcceptor(ServerInterceptor):
    """Refuses every call that did not come through an acceptor, of any service."""

    async def intercept_service(
        self,
        continuation: "Callable[[grpc.HandlerCallDetails], Awaitable[Handler]]",
        handler_call_details: grpc.HandlerCallDetails,
    ) -> "Handler":
        handler = await continuation(handler_call_details)
        for kind, make in _MAKERS.items():
            # gRPC's own handler of an unknown method is None, which its stubs do not say.
            if (behaviour := getattr(handler, kind, None)) is not None:
                return make(
                    _guarded(behaviour),
                    request_deserializer=handler.request_deserializer,
                    response_serializer=handler.response_serializer,
                )
        return handler


class _Context(Protocol):
    """The context of a call; `abort` is a coroutine except in a thread of gRPC."""

    def peer(self) -> str: ...

    def abort(self, code: grpc.StatusCode, details: str, /) -> object: ...


async def _abort(context: _Context) -> None:
    ended = context.abort(*_REFUSAL)
    if inspect.isawaitable(ended):
        await ended


def _guarded(behaviour: "Behaviour") -> "Behaviour":
    """Return the same behaviour in the same form: gRPC tells coroutines and generators apart."""
    if inspect.isasyncgenfunction(behaviour):
        generated = behaviour

        async def generate(request: object, context: _Context) -> AsyncIterator[object]:
            if accepted_peer(context.peer()) is None:
                await _abort(context)
            async for response in generated(request, context):
                yield response

        return generate
    if inspect.iscoroutinefunction(behaviour):
        awaited = behaviour

        async def answer(request: object, context: _Context) -> object:
            if accepted_peer(context.peer()) is None:
                await _abort(context)
            return await awaited(request, context)

        return answer

    def answer_in_thread(request: object, context: _Context) -> object:
        if accepted_peer(context.peer()) is None:
            context.abort(*_REFUSAL)
        return behaviour(request, context)

    return answer_in_thread
