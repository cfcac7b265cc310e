"""A stream that is refused in the middle of a response ends, whether its client reads or not.

gRPC takes no status while a message is in its hands, and leaves open for ever a stream whose status
it did not take.
"""

from __future__ import annotations

import asyncio
from contextlib import AsyncExitStack
from typing import Any

import grpc
import pytest
from envoy.service.discovery.v3 import discovery_pb2

from mesh_testkit import until
from xds_server import PlainListener, ServerConfig, XdsServer, serving
from xds_server import type_urls as types
from xds_server.streams import _stream_opener
from xds_server.streams._limits import check_size
from xds_server.testing import admit_all
from xds_state import Make, State

PATIENCE_S = 60
CONFIG = ServerConfig(max_node_bytes=1000)


@pytest.fixture
def looked_at(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The sizes of the messages that the server looked at, so far."""
    sizes: list[int] = []

    def noting(data: bytes, *, delta: bool, config: ServerConfig) -> None:
        sizes.append(len(data))
        check_size(data, delta=delta, config=config)

    monkeypatch.setattr(_stream_opener, "check_size", noting)
    return sizes


def too_large() -> bytes:
    request = discovery_pb2.DiscoveryRequest(type_url=types.CLUSTER)
    request.node.id = "n" * 2000
    data: bytes = request.SerializeToString()
    return data


async def test_a_client_that_reads_on_gets_the_response_and_then_the_status(
    state: State, make: Make, http2: Any, looked_at: list[int]
) -> None:
    state.set(make.cluster("a"))
    server: XdsServer[None] = XdsServer({types.CLUSTER: state}, admit=admit_all, config=CONFIG)
    server.set_ready()
    async with AsyncExitStack() as stack:
        bound = await stack.enter_async_context(serving(server, [PlainListener()]))
        client = await stack.enter_async_context(http2(bound.addresses[0], window=0))
        stream = await client.subscribe(types.CLUSTER, node_id="n")
        async with asyncio.timeout(PATIENCE_S):
            await client.answered.wait()
            await client.send(stream, too_large())
            await until(lambda: len(looked_at) == 2, what="the request that is too large")
            await client.make_room(stream, 100_000)
            response = discovery_pb2.DiscoveryResponse.FromString(await client.receive(stream))
            await until(lambda: stream in client.trailers, what="the end of the stream")
    assert [each.type_url for each in response.resources] == [types.CLUSTER]
    trailers = client.trailers[stream]
    assert trailers["grpc-status"] == str(grpc.StatusCode.RESOURCE_EXHAUSTED.value[0])
    assert "max_node_bytes" in trailers["grpc-message"]


async def test_a_client_that_does_not_read_is_disconnected_in_the_end(
    state: State, make: Make, http2: Any
) -> None:
    state.set(make.cluster("a"))
    config = ServerConfig(max_node_bytes=1000, send_timeout_s=0.2, slow_client_s=0.05)
    server: XdsServer[None] = XdsServer({types.CLUSTER: state}, admit=admit_all, config=config)
    server.set_ready()
    async with AsyncExitStack() as stack:
        bound = await stack.enter_async_context(serving(server, [PlainListener()]))
        client = await stack.enter_async_context(http2(bound.addresses[0], window=0))
        stream = await client.subscribe(types.CLUSTER, node_id="n")
        async with asyncio.timeout(PATIENCE_S):
            await client.answered.wait()
            await client.send(stream, too_large())
            await client.closed.wait()
            await until(lambda: not server.clients(), what="no client")
