"""Envoy's socket: a gRPC server inside, and an acceptor at the socket that accepts for it."""

from __future__ import annotations

import socket
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import AsyncExitStack, asynccontextmanager

import grpc
import grpc.aio

from mesh_listening import ListenError, Port, grpc_acceptor, grpc_server, listening_at
from xds_proxy._config import RelayConfig
from xds_proxy._errors import SocketError

_STOP_GRACE_S = 1.0


@asynccontextmanager
async def serving_at_socket(
    config: RelayConfig,
    handlers: Sequence[grpc.GenericRpcHandler[bytes, bytes]],
    *,
    stop: Callable[[], Awaitable[None]],
    listening: socket.socket | None = None,
) -> AsyncIterator[Port]:
    """Serve for as long as the block runs; yields the port that counts the connections.

    stop: ends the calls that go on, before the server stops. listening: listens at the path
    already, and stays open. Raises SocketError.
    """
    path, limits = config.socket_path, config.limits
    options = _server_options(config.max_message_bytes) + grpc_server.options(limits)
    async with AsyncExitStack() as stack:
        try:
            if listening is None:
                listening = stack.enter_context(listening_at(path, mode=config.socket_mode))
            acceptor = await stack.enter_async_context(
                grpc_acceptor([listening], name=f"unix:{path}", limits=limits)
            )
            server = grpc.aio.server(
                interceptors=[grpc_server.OnlyThroughAcceptor()], options=options
            )
            server.add_generic_rpc_handlers(tuple(handlers))
            inside = stack.enter_context(grpc_server.listen_inside(server))
            stack.push_async_callback(server.stop, _STOP_GRACE_S)
        except ListenError as error:
            raise SocketError(str(error)) from error
        await server.start()
        stack.push_async_callback(stop)
        stack.enter_context(acceptor.forwarding(inside))
        yield acceptor.port


def _server_options(max_message_bytes: int) -> list[tuple[str, int]]:
    return [
        ("grpc.max_receive_message_length", max_message_bytes),
        ("grpc.max_send_message_length", max_message_bytes),
        ("grpc.keepalive_time_ms", 30_000),
        ("grpc.keepalive_timeout_ms", 10_000),
        ("grpc.http2.max_pings_without_data", 0),
        ("grpc.http2.min_ping_interval_without_data_ms", 15_000),
    ]
