"""Control planes without a relay: streams to them, and servers that do not answer."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import (
    AbstractAsyncContextManager,
    AsyncExitStack,
    asynccontextmanager,
    suppress,
)
from dataclasses import replace
from pathlib import Path

import grpc
import grpc.aio
import pytest

from mesh_lifecycle import Backoff
from mesh_testkit import PATIENCE_S
from relays import Messages
from xds_proxy import FurtherAddress, UpstreamConfig
from xds_proxy.protocol._dialect import STATE_OF_THE_WORLD
from xds_proxy.testing import ControlPlane, ControlPlaneStream
from xds_proxy.upstream._call import ControlPlaneCall
from xds_proxy.upstream._control_planes import ControlPlanes, control_planes
from xds_proxy.upstream._upstream_error import UpstreamError

SOON = Backoff(initial_s=0.05, maximum_s=0.05, multiplier=1.0, jitter=0.0)
RARELY = Backoff(initial_s=3600, maximum_s=3600, multiplier=1.0, jitter=0.0)
RESPONSE = Messages.response(Messages.cluster, version="v1", nonce="n1", bodies=(b"x",))


def config_for(
    *addresses: str, root: Path | None = None, answer_timeout_s: float = PATIENCE_S
) -> UpstreamConfig:
    """Return the configuration for these addresses, in plaintext without a root."""
    return UpstreamConfig(
        address=addresses[0],
        further_addresses=tuple(FurtherAddress(each) for each in addresses[1:]),
        root_certificate=root,
        connect_timeout_s=PATIENCE_S,
        answer_timeout_s=answer_timeout_s,
    )


def planes_for(
    *addresses: str,
    root: Path | None = None,
    answer_timeout_s: float = PATIENCE_S,
    connect_timeout_s: float = PATIENCE_S,
    look: Backoff = RARELY,
) -> AbstractAsyncContextManager[ControlPlanes]:
    """Run the upstream side of a relay with these addresses."""
    config = config_for(*addresses, root=root, answer_timeout_s=answer_timeout_s)
    return control_planes(
        replace(config, connect_timeout_s=connect_timeout_s), max_message_bytes=1 << 24, look=look
    )


def ads(planes: ControlPlanes) -> AbstractAsyncContextManager[ControlPlaneCall]:
    """Open a stream."""
    return planes.call(STATE_OF_THE_WORLD)


@asynccontextmanager
async def patiently(planes: ControlPlanes) -> AsyncIterator[ControlPlaneCall]:
    """Open a stream, where a bound on time may be too short for a machine that is busy."""
    async with AsyncExitStack() as stack:
        while True:
            with suppress(UpstreamError):
                call = await stack.enter_async_context(ads(planes))
                break
            await planes.wait_to_retry()
        yield call


async def reason_of_failure(planes: ControlPlanes) -> str:
    """Try to open a stream, which must fail, and return why."""
    with pytest.raises(UpstreamError) as caught:
        async with ads(planes):
            pass
    return caught.value.reason


async def fail_until_delays_are_long(planes: ControlPlanes) -> None:
    """Fail until the outage has lasted: files are watched then, and their changes end a delay.

    The delays themselves are not waited for.
    """
    while planes._selection.entries[0].again.last_s < 2.0:
        await reason_of_failure(planes)
        planes._selection.retry_now()
    await reason_of_failure(planes)


async def exchange(call: ControlPlaneCall, plane: ControlPlane) -> ControlPlaneStream:
    """Send a request and get its answer; returns the stream as the control plane sees it."""
    await call.write(Messages.request(Messages.cluster))
    stream = await plane.accept()
    assert await stream.receive() is not None
    await stream.send(RESPONSE)
    assert await call.read() == RESPONSE
    return stream


async def end_of(call: ControlPlaneCall) -> tuple[grpc.StatusCode, str]:
    """Read to the end of a stream and return its status."""
    with suppress(grpc.aio.AioRpcError):
        while await call.read() is not None:
            pass
    return await call.code(), await call.details() or ""


@asynccontextmanager
async def silent_server(host: str = "127.0.0.1", port: int = 0) -> AsyncIterator[str]:
    """Take connections and say nothing."""
    held: list[asyncio.StreamWriter] = []

    async def accept(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        held.append(writer)

    server = await asyncio.start_server(accept, host, port)
    try:
        yield f"{host}:{server.sockets[0].getsockname()[1]}"
    finally:
        server.close()
        for writer in held:
            writer.close()
            with suppress(ConnectionError):
                await writer.wait_closed()
        await server.wait_closed()


@asynccontextmanager
async def short_lived_connections() -> AsyncIterator[str]:
    """A control plane that answers requests and ends each connection after a second."""

    async def serve(
        requests: AsyncIterator[bytes], _context: grpc.aio.ServicerContext[bytes, bytes]
    ) -> AsyncIterator[bytes]:
        async for _ in requests:
            yield RESPONSE

    options = [("grpc.max_connection_age_ms", 1000), ("grpc.max_connection_age_grace_ms", 100)]
    server = grpc.aio.server(options=options)
    handler = grpc.stream_stream_rpc_method_handler(serve)
    service = "envoy.service.discovery.v3.AggregatedDiscoveryService"
    server.add_generic_rpc_handlers(
        (grpc.method_handlers_generic_handler(service, {"StreamAggregatedResources": handler}),)
    )
    port = server.add_insecure_port("127.0.0.1:0")
    await server.start()
    try:
        yield f"127.0.0.1:{port}"
    finally:
        await server.stop(None)
