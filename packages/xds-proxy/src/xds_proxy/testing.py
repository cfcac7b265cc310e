"""For tests of a relay: a control plane that the test controls, and the client side of Envoy.

Real gRPC over real sockets; messages are raw bytes. Every stream that reaches the control plane
waits until the test accepts it; then the test reads, writes and ends it.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Collection, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

import grpc
import grpc.aio

from xds_proxy.protocol._dialect import DIALECTS, SERVICE
from xds_proxy.upstream._end_status import EndStatus

METHODS = tuple(dialect.method for dialect in DIALECTS)
"""The methods of an ADS stream, one for each dialect."""

_UNLIMITED = [
    ("grpc.max_receive_message_length", -1),
    ("grpc.max_send_message_length", -1),
    ("grpc.so_reuseport", 0),
]


class ControlPlaneStream:
    """A stream as the control plane sees it."""

    def __init__(
        self,
        *,
        method: str,
        metadata: Mapping[str, str],
        context: grpc.aio.ServicerContext[bytes, bytes],
    ) -> None:
        self.method = method
        self.metadata = metadata
        self._context = context
        self._end: asyncio.Future[tuple[grpc.StatusCode, str]] = (
            asyncio.get_running_loop().create_future()
        )
        self.closed = asyncio.Event()

    async def receive(self) -> bytes | None:
        """Return the next request, None once the relay ended the stream."""
        request: object = await self._context.read()
        return request if isinstance(request, bytes) else None  # else gRPC's EOF

    async def send(self, response: bytes) -> None:
        """Send a response; returns when it was handed to the transport."""
        await self._context.write(response)

    def end(self, code: grpc.StatusCode = grpc.StatusCode.OK, details: str = "") -> None:
        """End the stream."""
        if not self._end.done():
            self._end.set_result((code, details))

    async def _run(self) -> None:
        try:
            code, details = await self._end
        finally:
            self.closed.set()
        if code is not grpc.StatusCode.OK:
            await self._context.abort(code, details)


class ControlPlane:
    """A listening control plane; created by `control_plane`."""

    def __init__(self) -> None:
        self.address = ""
        self.refusal: tuple[grpc.StatusCode, str] | None = None
        """If set, every stream ends with this status at once, and `accept` does not return it."""
        self._arrived: asyncio.Queue[ControlPlaneStream] = asyncio.Queue()

    async def accept(self) -> ControlPlaneStream:
        """Return the next stream that the relay opened."""
        return await self._arrived.get()

    async def _serve(self, method: str, context: grpc.aio.ServicerContext[bytes, bytes]) -> None:
        if self.refusal is not None:
            await context.abort(*self.refusal)
        metadata = {str(key): str(value) for key, value in context.invocation_metadata() or ()}
        stream = ControlPlaneStream(method=method, metadata=metadata, context=context)
        self._arrived.put_nowait(stream)
        await stream._run()


@asynccontextmanager
async def control_plane(
    *,
    credentials: grpc.ServerCredentials | None = None,
    address: str = "127.0.0.1:0",
    further_paths: Collection[str] = (),
    methods: Collection[str] = METHODS,
    options: Sequence[tuple[str, int]] = (),
) -> AsyncIterator[ControlPlane]:
    """Run a control plane on a free port of 127.0.0.1, in plaintext without credentials.

    methods: of `METHODS`, those that it has; a stream of another ends UNIMPLEMENTED.
    further_paths: of methods besides ADS that it has; their calls arrive as streams, too.
    options: of the gRPC server, besides that it takes messages of any size.
    """
    plane = ControlPlane()
    server = grpc.aio.server(options=[*_UNLIMITED, *options])
    server.add_generic_rpc_handlers(
        (_handlers(plane, methods), *_further_handlers(plane, further_paths))
    )
    if credentials is None:
        port = server.add_insecure_port(address)
    else:
        port = server.add_secure_port(address, credentials)
    plane.address = f"{address.rpartition(':')[0]}:{port}"
    await server.start()
    try:
        yield plane
    finally:
        await server.stop(None)


class EnvoyStream:
    """A stream on the relay's socket as Envoy sees it."""

    def __init__(self, call: grpc.aio.StreamStreamCall[bytes, bytes]) -> None:
        self._call = call
        self._end_status = EndStatus(call)

    async def send(self, request: bytes) -> None:
        """Send a request; it is lost if the stream ends meanwhile, as Envoy's would be."""
        try:
            await self._call.write(request)
        except (grpc.aio.AioRpcError, asyncio.InvalidStateError):
            self._end_status.write_failed = True

    async def receive(self) -> bytes | None:
        """Return the next response, None once the stream has ended; `status` then says how."""
        try:
            response: object = await self._call.read()
        except grpc.aio.AioRpcError:
            return None
        return response if isinstance(response, bytes) else None  # else gRPC's EOF

    async def finish_sending(self) -> None:
        """Half-close, as a client does that ends a stream in the ordinary way."""
        await self._call.done_writing()

    def cancel(self) -> None:
        """Reset the stream, as when a client exits."""
        self._call.cancel()

    async def status(self) -> tuple[grpc.StatusCode, str]:
        """Wait for the end of the stream and return its status."""
        return await self._end_status.wait_for(self._call)


@asynccontextmanager
async def envoy_stream(
    socket_path: Path, *, method: str = "StreamAggregatedResources"
) -> AsyncIterator[EnvoyStream]:
    """Connect to a relay's socket and open a stream, as Envoy does."""
    path = next(dialect.path for dialect in DIALECTS if dialect.method == method)
    options = [*_UNLIMITED, ("grpc.use_local_subchannel_pool", 1)]
    async with grpc.aio.insecure_channel(f"unix:{socket_path}", options=options) as channel:
        call = channel.stream_stream(path, None, None)(None)
        try:
            yield EnvoyStream(call)
        finally:
            call.cancel()


def _handlers(
    plane: ControlPlane, methods: Collection[str]
) -> grpc.GenericRpcHandler[bytes, bytes]:
    return grpc.method_handlers_generic_handler(
        SERVICE, {method: _method(plane, method) for method in methods}
    )


def _further_handlers(
    plane: ControlPlane, paths: Collection[str]
) -> list[grpc.GenericRpcHandler[bytes, bytes]]:
    each = [path.removeprefix("/").partition("/") for path in paths]
    return [
        grpc.method_handlers_generic_handler(service, {name: _method(plane, name)})
        for service, _, name in each
    ]


def _method(plane: ControlPlane, name: str) -> grpc.RpcMethodHandler[bytes, bytes]:
    async def serve(_: object, context: grpc.aio.ServicerContext[bytes, bytes]) -> None:
        await plane._serve(name, context)

    return grpc.stream_stream_rpc_method_handler(serve)
