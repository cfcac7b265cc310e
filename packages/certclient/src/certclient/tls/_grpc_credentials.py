"""Mutual TLS for grpc.aio that follows the rotation, as far as grpcio lets it.

A server asks for its certificate anew for each connection. A channel's credentials are fixed when
it is made, and grpcio checks host names, which SPIFFE certificates do not have: so a channel
here speaks plaintext to a socket of our own, behind which TLS is done by `client_context`.
"""

import asyncio
import inspect
import tempfile
from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any

import grpc
import grpc.aio

from certclient.feed._certificates import Certificates
from certclient.tls._authorization import Authorize, PeerRule
from certclient.tls._contexts import client_context
from certclient.x509._certificate import Certificate
from mesh_identity import SpiffeId

_CHUNK = 1 << 16


async def grpc_server_credentials(certificates: Certificates) -> grpc.ServerCredentials:
    """Make credentials that show the newest certificate and want one of each client.

    Waits for the first. Clients are verified by the roots of our own trust domain alone; who the
    client is says `grpc_authorizer`. grpcio knows no revocation lists here; and once the
    certificate has expired unrenewed, it goes on showing the expired one.
    """
    first = await certificates.wait_for_first()
    shown = first

    def newest() -> grpc.ServerCertificateConfiguration | None:
        # Called from a thread of grpcio's for each connection; None is "as before".
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
) -> "grpc.aio.ServerInterceptor[Any, Any]":
    """Make an interceptor that lets through the calls of peers of our own trust domain.

    Of these, if given, those that `authorize` says yes to. Other trust domains are left out:
    grpcio does not tell which root a peer's certificate leads to.
    grpcio can refuse calls, not connections. For handlers that are coroutines or asynchronous
    generators; others are refused when they are called.
    """
    return _Authorizer(certificates, PeerRule(authorize=authorize))


class _Authorizer(grpc.aio.ServerInterceptor):  # type: ignore[type-arg]  # no generic at run time
    def __init__(self, certificates: Certificates, rule: PeerRule) -> None:
        self._certificates = certificates
        self._rule = rule

    async def intercept_service(
        self,
        continuation: Callable[[Any], Awaitable[Any]],
        handler_call_details: Any,
    ) -> Any:
        handler = await continuation(handler_call_details)
        if handler is None:
            return None
        for kind in ("unary_unary", "unary_stream", "stream_unary", "stream_stream"):
            behaviour = getattr(handler, kind)
            if behaviour is not None:
                return handler._replace(**{kind: self._checked(behaviour)})
        return handler

    def _checked(self, behaviour: Callable[..., Any]) -> Callable[..., Any]:
        if inspect.isasyncgenfunction(behaviour):

            async def stream(request: Any, context: Any) -> AsyncIterator[Any]:
                await self._check(context)
                async for response in behaviour(request, context):
                    yield response

            return stream
        if not inspect.iscoroutinefunction(behaviour):
            raise TypeError("an authorised gRPC handler must be a coroutine function")

        async def call(request: Any, context: Any) -> Any:
            await self._check(context)
            return await behaviour(request, context)

        return call

    async def _check(self, context: Any) -> None:
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
            return f"{', '.join(uris) or 'nobody known'} may not call"
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
    options: Sequence[tuple[str, Any]] = (),
) -> AsyncIterator[grpc.aio.Channel]:
    """Open a channel to "HOST:PORT" that shows the newest certificate on each new connection.

    A server of another trust domain than ours and `trust_domains`, or one that `authorize` does not
    want, is left in the handshake; calls then fail with UNAVAILABLE. Costs one copy of each byte,
    in this process.
    """
    host, _, port = target.rpartition(":")
    context = client_context(certificates, authorize, trust_domains=trust_domains)
    context.set_alpn_protocols(["h2"])
    async with AsyncExitStack() as stack:
        directory = stack.enter_context(tempfile.TemporaryDirectory(prefix="certclient-"))
        tunnel = _Tunnel(host.strip("[]"), int(port), context)
        path = Path(directory, "s")  # the directory is 0700, so nobody else gets to the socket
        server = await asyncio.start_unix_server(tunnel.serve, path)
        stack.push_async_callback(tunnel.close, server)
        yield await stack.enter_async_context(
            grpc.aio.insecure_channel(
                f"unix:{path}", options=[("grpc.default_authority", target), *options]
            )
        )


class _Tunnel:
    def __init__(self, host: str, port: int, context: Any) -> None:
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
            pass  # grpcio sees its connection end, tries again and tells its caller
        except asyncio.CancelledError:
            # Only `close` cancels, and asyncio's server would log it as a failure.
            pass
        finally:
            # Closing waits for grpcio to read what is left; once cancelled nobody wants that.
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
            # An orderly end of TLS waits for the other side's answer, up to half a minute; HTTP/2
            # says itself when a connection ends.
            far_writer.transport.abort()

    async def close(self, server: asyncio.Server) -> None:
        """End the server and its connections.

        From Python 3.12 on a server waits for its connections, and one whose far end never answers
        the handshake does not end by itself: so they are ended before the server is waited for.
        """
        server.close()
        self._closed = True
        tasks = list(self._tasks)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await server.wait_closed()


async def _copy(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Copy until either end closes; then both directions end."""
    while chunk := await reader.read(_CHUNK):
        writer.write(chunk)
        await writer.drain()
    raise ConnectionResetError("the other end closed")
