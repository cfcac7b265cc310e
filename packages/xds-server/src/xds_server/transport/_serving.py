"""The server on the network: gRPC over its listeners, for as long as the context lasts."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack, ExitStack, asynccontextmanager
from typing import Protocol, TypeVar, cast

import grpc
import grpc.aio

import mesh_listening
from mesh_listening import (
    ConnectionLimits,
    Inside,
    Port,
    RequestRoom,
    format_address,
    grpc_acceptor,
    listening_at,
    listening_on,
)
from mesh_listening.grpc_server import OnlyThroughAcceptor, listen_inside, options
from xds_server._config import ServerConfig
from xds_server._errors import ListenError
from xds_server._server import XdsServer
from xds_server.transport._listeners import (
    Bound,
    Listener,
    PlainListener,
    TlsListener,
    UnixListener,
)
from xds_server.transport._services import XdsHandler

C = TypeVar("C")


class RpcHandler(Protocol):
    """The methods of one gRPC service, as `grpc.GenericRpcHandler` has them."""

    def service(self, handler_call_details: grpc.HandlerCallDetails) -> object:
        """Return the handler of a method; None for one of another service."""


@asynccontextmanager
async def serving(
    server: XdsServer[C],
    listeners: Sequence[Listener],
    *,
    extra_handlers: Sequence[RpcHandler] = (),
) -> AsyncIterator[Bound]:
    """Serve on every listener until the context is left. Raises `ListenError`."""
    handlers = (XdsHandler(server), *extra_handlers)
    async with AsyncExitStack() as stack:
        await stack.enter_async_context(server.running())
        room = RequestRoom(
            max_bytes=server.config.max_receiving_bytes,
            max_holder_bytes=server.config.max_receiving_bytes_per_identity,
        )
        bound: list[tuple[str, Port]] = []
        for listener in listeners:
            opened = _open(listener, handlers, server.config, room)
            bound.append(await stack.enter_async_context(opened))
        yield Bound(
            addresses=tuple(address for address, _ in bound),
            ports=tuple(port for _, port in bound),
        )


@asynccontextmanager
async def _open(
    listener: Listener,
    handlers: Sequence[RpcHandler],
    config: ServerConfig,
    room: RequestRoom,
) -> AsyncIterator[tuple[str, Port]]:
    """One gRPC server a listener, inside on loopback, and an acceptor that accepts for it.

    At the end the acceptor accepts no more, the server ends its calls, and then the acceptor closes
    its connections.
    """
    allow, context = None, None
    match listener:
        case UnixListener():
            allow = listener.allow
        case TlsListener():
            context = listener.context
        case PlainListener():
            pass
    async with AsyncExitStack() as stack:
        sockets, address = _listening(listener, stack)
        acceptor = await stack.enter_async_context(
            grpc_acceptor(
                sockets,
                name=address,
                limits=listener.limits,
                allowed=allow,
                context=context,
                room=room,
            )
        )
        inside = await stack.enter_async_context(_grpc_server(handlers, config, listener.limits))
        stack.enter_context(acceptor.forwarding(inside))
        yield address, acceptor.port


def _listening(listener: Listener, stack: AsyncExitStack) -> tuple[list[socket.socket], str]:
    """Return the sockets, closed with the stack, and their address."""
    try:
        if isinstance(listener, UnixListener):
            one = listener.listening
            if one is None:
                one = stack.enter_context(listening_at(listener.path, mode=listener.mode))
            return [one], f"unix:{listener.path}"
        sockets = stack.enter_context(listening_on(listener.host, listener.port))
    except mesh_listening.ListenError as error:
        raise ListenError(str(error)) from error
    return sockets, format_address(sockets[0])


@asynccontextmanager
async def _grpc_server(
    handlers: Sequence[RpcHandler],
    config: ServerConfig,
    limits: ConnectionLimits,
) -> AsyncIterator[Inside]:
    """Run a server; yield where it listens."""
    grpc_server = grpc.aio.server(
        # The server looks at nothing but `service`, whatever the messages are.
        handlers=cast("Sequence[grpc.GenericRpcHandler[bytes, bytes]]", handlers),
        interceptors=[OnlyThroughAcceptor()],
        options=[*_options(config), *options(limits)],
    )
    with ExitStack() as stack:
        try:
            try:
                inside = stack.enter_context(listen_inside(grpc_server))
            except mesh_listening.ListenError as error:
                raise ListenError(str(error)) from error
            await grpc_server.start()
            yield inside
        finally:
            # Streams never end by themselves, so they are not waited for; other calls are.
            await asyncio.shield(grpc_server.stop(config.stop_grace_s))


def _options(config: ServerConfig) -> list[tuple[str, int]]:
    chosen: list[tuple[str, int]] = [
        ("grpc.max_receive_message_length", config.max_request_bytes),
        ("grpc.max_send_message_length", config.max_message_bytes),
        ("grpc.max_concurrent_streams", config.max_streams),
        ("grpc.max_metadata_size", config.max_header_bytes),
        ("grpc.absolute_max_metadata_size", config.max_header_bytes),
        ("grpc.keepalive_time_ms", round(config.keepalive_interval_s * 1000)),
        ("grpc.keepalive_timeout_ms", round(config.keepalive_timeout_s * 1000)),
        ("grpc.http2.max_pings_without_data", 0),
        (
            "grpc.http2.min_ping_interval_without_data_ms",
            round(config.keepalive_interval_s * 500),
        ),
    ]
    if config.max_connection_age_s is not None:
        chosen += [
            ("grpc.max_connection_age_ms", round(config.max_connection_age_s * 1000)),
            ("grpc.max_connection_age_grace_ms", round(config.max_connection_age_grace_s * 1000)),
        ]
    return chosen
