"""Mutual TLS for grpc.aio that follows the rotation, as far as grpcio allows.

grpcio's server requests its certificate for each connection. A channel's credentials are fixed when
it is created, and grpcio checks host names, which SPIFFE certificates do not have. So a channel of
this module speaks plaintext to a local socket, behind which `client_context` does TLS.
"""

import asyncio
import inspect
import ssl
import tempfile
from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import grpc
import grpc.aio

from certclient.feed._certificates import Certificates
from certclient.tls._authorization import Authorize, PeerRule
from certclient.tls._contexts import client_context
from certclient.x509._certificate import Certificate
from mesh_identity import SpiffeId

if TYPE_CHECKING:
    _Context = grpc.aio.ServicerContext[object, object]
    _Behaviour = Callable[[object, _Context], object]
    _Handler = grpc.RpcMethodHandler[object, object]
    _ServerInterceptor = grpc.aio.ServerInterceptor[object, object]
else:
    _ServerInterceptor = grpc.aio.ServerInterceptor

_CHUNK_BYTES = 1 << 16
_HANDLER_KINDS: "Mapping[str, Callable[..., _Handler]]" = {
    "unary_unary": grpc.unary_unary_rpc_method_handler,
    "unary_stream": grpc.unary_stream_rpc_method_handler,
    "stream_unary": grpc.stream_unary_rpc_method_handler,
    "stream_stream": grpc.stream_stream_rpc_method_handler,
}
"""The ways to make each kind of handler, by the attribute that has its function."""


async def grpc_server_credentials(certificates: Certificates) -> grpc.ServerCredentials:
    """Make credentials that show the newest certificate and require one of each client.

    Waits for the first certificate. Clients are verified by the roots of our own trust domain
    alone; `grpc_authorizer` checks their SPIFFE ids. grpcio does not check revocation lists here,
    and goes on showing a certificate that has expired without being renewed.
    """
    first = await certificates.wait_for_first()
    shown = first

    def newest() -> grpc.ServerCertificateConfiguration | None:
        # grpcio calls it in a thread of its own for each connection; None means no change.
        nonlocal shown
        certificate = certificates.latest
        if certificate is None or certificate is shown:
            return None
        shown = certificate
        return _configuration(certificate)

    return grpc.dynamic_ssl_server_credentials(
        _configuration(first),
        newest,  # type: ignore[arg-type]  # the stubs forget that None means no change
        require_client_authentication=True,
    )


def _configuration(certificate: Certificate) -> grpc.ServerCertificateConfiguration:
    return grpc.ssl_server_certificate_configuration(
        [(certificate.private_key_pem, certificate.chain_pem)],
        root_certificates=certificate.trust_bundle_pem,
    )


def grpc_authorizer(
    certificates: Certificates, authorize: Authorize | None = None
) -> "grpc.aio.ServerInterceptor[object, object]":
    """Make an interceptor that accepts the calls of peers of our own trust domain.

    If `authorize` is given, it is called with the SPIFFE id of each of these and decides. Other
    trust domains are refused: grpcio does not tell which root a peer's certificate leads to. grpcio
    can refuse calls, not connections. For handlers that are coroutine functions or asynchronous
    generator functions; calls of others are refused.
    """
    return _Authorizer(certificates, PeerRule(authorize=authorize))


class _Authorizer(_ServerInterceptor):
    def __init__(self, certificates: Certificates, rule: PeerRule) -> None:
        self._certificates = certificates
        self._rule = rule

    async def intercept_service(
        self,
        continuation: "Callable[[grpc.HandlerCallDetails], Awaitable[_Handler]]",
        handler_call_details: grpc.HandlerCallDetails,
    ) -> "_Handler":
        # None, despite its type, for a method that the server does not have.
        handler = await continuation(handler_call_details)
        for kind, make_handler in _HANDLER_KINDS.items():
            behaviour: _Behaviour | None = getattr(handler, kind, None)
            if behaviour is not None:
                return make_handler(
                    self._checked(behaviour),
                    request_deserializer=handler.request_deserializer,
                    response_serializer=handler.response_serializer,
                )
        return handler

    def _checked(self, behaviour: "_Behaviour") -> "_Behaviour":
        if inspect.isasyncgenfunction(behaviour):

            async def stream(request: object, context: "_Context") -> AsyncIterator[object]:
                await self._check(context)
                async for response in behaviour(request, context):
                    yield response

            return stream
        if not inspect.iscoroutinefunction(behaviour):
            raise TypeError("an authorised gRPC handler must be a coroutine function")

        async def call(request: object, context: "_Context") -> object:
            await self._check(context)
            return await behaviour(request, context)

        return call

    async def _check(self, context: "_Context") -> None:
        uris = [value.decode() for value in context.auth_context().get("peer_spiffe_id", ())]
        reason = self._refusal(uris)
        if reason is not None:
            await context.abort(grpc.StatusCode.PERMISSION_DENIED, reason)

    def _refusal(self, uris: list[str]) -> str | None:
        own = self._certificates.latest
        if own is None:
            return "there is no valid workload certificate"
        try:
            (uri,) = uris
            peer = SpiffeId.parse(uri)
        except ValueError:
            return f"{', '.join(uris) or 'a client without a SPIFFE id'} may not call"
        if self._rule.refusal(peer, own_trust_domain=own.spiffe_id.trust_domain) is not None:
            return f"{peer} may not call"
        return None


@asynccontextmanager
async def grpc_channel(
    certificates: Certificates,
    target: str,
    *,
    authorize: Authorize | None = None,
    trust_domains: Collection[str] = (),
    options: Sequence[tuple[str, object]] = (),
) -> AsyncIterator[grpc.aio.Channel]:
    """Open a channel to "HOST:PORT" that shows the newest certificate on each new connection.

    If the server is of another trust domain than ours and `trust_domains`, or `authorize` refuses
    it, the handshake fails, and calls fail with UNAVAILABLE. Each byte is copied once more in this
    process.
    """
    host, _, port = target.rpartition(":")
    context = client_context(certificates, authorize, trust_domains=trust_domains)
    context.set_alpn_protocols(["h2"])
    async with AsyncExitStack() as stack:
        directory = stack.enter_context(tempfile.TemporaryDirectory(prefix="certclient-"))
        tunnel = _Tunnel(host.strip("[]"), int(port), context)
        path = Path(directory, "s")  # in a directory of mode 0700, so other users can't connect
        server = await asyncio.start_unix_server(tunnel.serve, path)
        stack.push_async_callback(tunnel.close, server)
        yield await stack.enter_async_context(
            grpc.aio.insecure_channel(
                f"unix:{path}", options=[("grpc.default_authority", target), *options]
            )
        )


class _Tunnel:
    def __init__(self, host: str, port: int, context: ssl.SSLContext) -> None:
        self._host, self._port, self._context = host, port, context
        self._tasks: set[asyncio.Task[None]] = set()
        self._closed = False

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        if task is not None:
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)
        try:
            if not self._closed:
                await self._splice(reader, writer)
            writer.close()
            await writer.wait_closed()
        except OSError:
            pass  # grpcio sees the end of its connection, retries and reports it
        except asyncio.CancelledError:
            # Only `close` cancels, and asyncio's server would log the cancellation as a failure.
            pass
        finally:
            # Closing would wait for grpcio to read the rest, even after a cancellation.
            writer.transport.abort()

    async def _splice(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        far_reader, far_writer = await asyncio.open_connection(
            self._host, self._port, ssl=self._context
        )
        try:
            async with asyncio.TaskGroup() as group:
                group.create_task(_copy(reader, far_writer), name="gRPC tunnel out")
                group.create_task(_copy(far_reader, writer), name="gRPC tunnel in")
        except* OSError:
            pass
        finally:
            # An orderly end of TLS waits for the peer, up to half a minute. HTTP/2 has its own
            # message for the end of a connection.
            far_writer.transport.abort()

    async def close(self, server: asyncio.Server) -> None:
        """End the server and its connections.

        From Python 3.12 on, `wait_closed` waits for the connections, and one whose peer never
        answers the handshake does not end by itself. So they are ended first.
        """
        server.close()
        self._closed = True
        tasks = list(self._tasks)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await server.wait_closed()


async def _copy(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Copy until either end closes; then raise, which ends the other direction too."""
    while chunk := await reader.read(_CHUNK_BYTES):
        writer.write(chunk)
        await writer.drain()
    raise ConnectionResetError("the other end closed")
