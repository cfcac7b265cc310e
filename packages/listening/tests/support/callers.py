"""Servers on real sockets, and clients that misbehave."""

from __future__ import annotations

import asyncio
import socket
import ssl
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager, nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, cast

import grpc
import grpc.aio

from mesh_listening import (
    AllowedPeers,
    ConnectionLimits,
    GrpcAcceptor,
    Inside,
    accepted_peer,
    grpc_acceptor,
)
from mesh_listening.acceptors._inside import Loopback
from mesh_listening.grpc_server import (
    OnlyThroughAcceptor,
    listen_inside,
    listen_on_loopback,
    options,
)
from mesh_testkit.certificates import Authority

HTTP2_HELLO = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\x00\x00\x00\x04\x00\x00\x00\x00\x00"


def unhurried(limits: ConnectionLimits) -> ConnectionLimits:
    """Return limits that end no connection for being slow; a test shortens the time it is about.

    The clients of a test are as slow as its machine, and must not meet a limit meant for others.
    """
    return limits._replace(first_byte_s=3600.0, handshake_s=3600.0, idle_s=3600.0, stalled_s=3600.0)


if TYPE_CHECKING:
    BytesHandler = grpc.GenericRpcHandler[bytes, bytes]
    BytesMethod = grpc.RpcMethodHandler[bytes, bytes]
    BytesContext = grpc.aio.ServicerContext[bytes, bytes]
else:  # gRPC's stubs know type parameters that its classes do not have.
    BytesHandler = grpc.GenericRpcHandler
    BytesMethod = grpc.RpcMethodHandler
    BytesContext = grpc.aio.ServicerContext


class WhoAmI(BytesHandler):
    """One method that returns the peer of the call, another that echoes its requests."""

    def service(self, handler_call_details: grpc.HandlerCallDetails) -> BytesMethod | None:
        async def who(_request: bytes, context: BytesContext) -> bytes:
            return repr(accepted_peer(context.peer())).encode()

        async def echo(
            requests: AsyncIterator[bytes], _context: BytesContext
        ) -> AsyncIterator[bytes]:
            async for request in requests:
                yield request

        return {
            "/test.Who/AmI": grpc.unary_unary_rpc_method_handler(who),
            "/test.Who/Echo": grpc.stream_stream_rpc_method_handler(echo),
        }.get(handler_call_details.method)


class Served:
    """A gRPC server behind an acceptor, and where it listens inside."""

    def __init__(self, acceptor: GrpcAcceptor, inside: Inside) -> None:
        self.acceptor = acceptor
        self.inside = inside

    @property
    def port(self) -> Loopback:
        """The port inside, of a server that listens on loopback."""
        assert isinstance(self.inside, Loopback)
        return self.inside


@asynccontextmanager
async def served_by_grpc(
    sockets: list[socket.socket],
    limits: ConnectionLimits,
    *,
    allowed: AllowedPeers | None = None,
    context: Callable[[], ssl.SSLContext] | None = None,
    handlers: Sequence[BytesHandler] = (),
    on_loopback: bool = False,
) -> AsyncIterator[Served]:
    async with grpc_acceptor(
        sockets, name="test", limits=limits, allowed=allowed, context=context
    ) as acceptor:
        server = grpc.aio.server(
            handlers=[WhoAmI(), *handlers],
            interceptors=[OnlyThroughAcceptor()],
            options=options(limits),
        )
        with (
            listen_inside(server)
            if not on_loopback
            else nullcontext(listen_on_loopback(server)) as inside
        ):
            await server.start()
            try:
                with acceptor.forwarding(inside):
                    yield Served(acceptor, inside)
            finally:
                await server.stop(0.5)


async def who_am_i(target: str, *, channel: Callable[[str], grpc.aio.Channel] | None = None) -> str:
    options = [("grpc.use_local_subchannel_pool", 1)]
    opened = channel(target) if channel else grpc.aio.insecure_channel(target, options=options)
    async with opened as through:
        answer: bytes = await through.unary_unary("/test.Who/AmI", None, None)(b"")
    return answer.decode()


class Echo(asyncio.Protocol):
    """Sends back the bytes that it receives."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast(asyncio.Transport, transport)

    def data_received(self, data: bytes) -> None:
        self.transport.write(data)


class Pki:
    """A certificate for localhost, as a server's context, and channels that trust it."""

    def __init__(self, directory: Path) -> None:
        authority = Authority()
        issued = authority.issue("localhost")
        self._root_pem = authority.root_pem
        path = directory / "certificate.pem"
        path.write_bytes(issued.chain_pem + issued.key_pem)
        self._context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        self._context.set_alpn_protocols(["h2"])
        self._context.load_cert_chain(path)

    def server_context(self) -> ssl.SSLContext:
        return self._context

    def channel(self, address: str) -> grpc.aio.Channel:
        credentials = grpc.ssl_channel_credentials(self._root_pem)
        options: list[tuple[str, str | int]] = [
            ("grpc.ssl_target_name_override", "localhost"),
            ("grpc.use_local_subchannel_pool", 1),
        ]
        return grpc.aio.secure_channel(address, credentials, options)
