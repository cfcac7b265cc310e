"""The server on the network: gRPC over its listeners, for as long as the context lasts."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any, TypeVar

import grpc
import grpc.aio

from ._config import ServerConfig
from ._errors import ListenError
from ._guard import OnlyThroughFront
from ._listeners import Bound, Listener, PlainListener, TlsListener, UnixListener
from ._server import XdsServer
from ._services import XdsHandler
from ._tls_front import listen_tcp, tls_front
from ._unix import prepare_socket_path

C = TypeVar("C")


@asynccontextmanager
async def serving(
    server: XdsServer[C],
    listeners: Sequence[Listener],
    *,
    extra_handlers: Sequence[grpc.GenericRpcHandler[Any, Any]] = (),
) -> AsyncIterator[Bound]:
    """Serve on every listener until the context is left. Raises `ListenError`."""
    handlers = (XdsHandler(server), *extra_handlers)
    async with AsyncExitStack() as stack:
        await stack.enter_async_context(server.running())
        bound: list[str] = []
        for listener in listeners:
            opened = _open(listener, handlers, server.config)
            bound.append(await stack.enter_async_context(opened))
        yield Bound(addresses=tuple(bound))


@asynccontextmanager
async def _open(
    listener: Listener,
    handlers: Sequence[grpc.GenericRpcHandler[Any, Any]],
    config: ServerConfig,
) -> AsyncIterator[str]:
    """One gRPC server a listener, so that each knows how its calls came in."""
    async with AsyncExitStack() as stack:
        match listener:
            case PlainListener():
                if listener.port:
                    # gRPC says only that it failed, and keeps what it opened for the attempt.
                    listen_tcp(listener.host, listener.port, backlog=1).close()
                grpc_server = await stack.enter_async_context(_grpc_server(handlers, config))
                host = _host(listener.host)
                port = _bind(grpc_server, f"{host}:{listener.port}")
                await grpc_server.start()
                yield f"{host}:{port}"
            case UnixListener():
                path = (
                    listener.path
                )  # as given: a relative path may fit where the absolute one is too long
                prepare_socket_path(path)
                stack.callback(path.unlink, missing_ok=True)
                grpc_server = await stack.enter_async_context(_grpc_server(handlers, config))
                _bind(grpc_server, f"unix:{path}")
                path.chmod(listener.mode)
                await grpc_server.start()
                yield f"unix:{path}"
            case TlsListener():
                only_through_front = _grpc_server(
                    handlers, config, interceptors=[OnlyThroughFront()]
                )
                grpc_server = await stack.enter_async_context(only_through_front)
                inner_port = _bind(grpc_server, "127.0.0.1:0")
                await grpc_server.start()
                yield await stack.enter_async_context(tls_front(listener, inner_port))


@asynccontextmanager
async def _grpc_server(
    handlers: Sequence[grpc.GenericRpcHandler[Any, Any]],
    config: ServerConfig,
    *,
    interceptors: Sequence[grpc.aio.ServerInterceptor[Any, Any]] = (),
) -> AsyncIterator[grpc.aio.Server]:
    """A server not started yet, which is stopped in any case."""
    grpc_server = grpc.aio.server(
        handlers=handlers, interceptors=interceptors, options=_options(config)
    )
    try:
        yield grpc_server
    finally:
        # Streams never end of themselves, so they are not waited for; other calls are.
        await asyncio.shield(grpc_server.stop(config.stop_grace_s))


def _options(config: ServerConfig) -> list[tuple[str, int]]:
    options: list[tuple[str, int]] = [
        # Two servers on one port would each get some of the calls, without a word.
        ("grpc.so_reuseport", 0),
        ("grpc.max_receive_message_length", config.max_message_bytes),
        ("grpc.max_send_message_length", config.max_message_bytes),
        ("grpc.max_concurrent_streams", config.max_streams),
        ("grpc.max_metadata_size", config.max_metadata_bytes),
        ("grpc.keepalive_time_ms", round(config.keepalive_interval_s * 1000)),
        ("grpc.keepalive_timeout_ms", round(config.keepalive_timeout_s * 1000)),
        ("grpc.http2.max_pings_without_data", 0),
        (
            "grpc.http2.min_ping_interval_without_data_ms",
            round(config.keepalive_interval_s * 500),
        ),
    ]
    if config.max_connection_age_s is not None:
        options += [
            ("grpc.max_connection_age_ms", round(config.max_connection_age_s * 1000)),
            ("grpc.max_connection_age_grace_ms", round(config.max_connection_age_grace_s * 1000)),
        ]
    return options


def _bind(grpc_server: grpc.aio.Server, address: str) -> int:
    try:
        port = grpc_server.add_insecure_port(address)
    except RuntimeError as error:
        raise ListenError(f"cannot listen on {address}: {_reason(error)}") from error
    if port == 0:
        raise ListenError(f"cannot listen on {address}")
    return port


def _reason(error: RuntimeError) -> str:
    return str(error).partition(";")[0]


def _host(host: str) -> str:
    """An address as gRPC writes it; empty means every address."""
    if host == "":
        return "[::]"
    return f"[{host}]" if ":" in host else host
