"""Mistakes of clients, over a real socket: each gets its status, and no other client notices."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any

import grpc
import pytest
from envoy.service.discovery.v3 import discovery_pb2

from mesh_lifecycle.testing import ManualClock
from xds_server import (
    PlainListener,
    PushRequest,
    Resource,
    ServerConfig,
    XdsServer,
    content_version,
    serving,
)
from xds_server import type_urls as types
from xds_server.testing import (
    ADS_DELTA,
    ADS_SOTW,
    SotwClient,
    StreamEnded,
    admit_all,
    in_memory,
    over_grpc,
)
from xds_state import Make, Running, State

CDS = types.CLUSTER


@asynccontextmanager
async def witnessed(
    state: State, make: Make, **config: Any
) -> AsyncIterator[tuple[XdsServer[None], str]]:
    """A server with one well-behaved client, which is asked at the end whether it is well."""
    state.set(make.cluster("a"))
    server: XdsServer[None] = XdsServer(
        {CDS: state, types.LISTENER: state}, admit=admit_all, config=ServerConfig(**config)
    )
    server.set_ready()
    async with serving(server, [PlainListener()]) as bound:
        address = bound.addresses[0]
        async with over_grpc(address) as wire:
            witness = SotwClient(wire, node_id="witness")
            await witness.subscribe(CDS)
            await witness.next()
            yield server, address
            state.set(make.cluster("a", change=1))
            server.push_now(PushRequest())
            assert set((await witness.next()).resources) == {"a"}


async def status_of(address: str, data: bytes, *, path: str = ADS_SOTW) -> grpc.StatusCode:
    async with over_grpc(address, path=path) as wire:
        await wire.send(data)
        with pytest.raises(StreamEnded) as ended:
            await wire.receive()
        return ended.value.code


@pytest.mark.parametrize("path", [ADS_SOTW, ADS_DELTA])
@pytest.mark.parametrize(
    "data",
    [
        b"\xff" * 100,  # no protobuf
        b"\x0a\x02\xc3\x28",  # a string that is no UTF-8, or a node that is no message
        discovery_pb2.DiscoveryRequest(type_url=CDS).SerializeToString(),  # no node
        b"",  # nothing
    ],
    ids=["garbage", "no-utf-8", "no-node", "empty"],
)
async def test_what_is_no_request_is_an_invalid_argument(
    state: State, make: Make, path: str, data: bytes
) -> None:
    async with witnessed(state, make) as (server, address):
        assert await status_of(address, data, path=path) is grpc.StatusCode.INVALID_ARGUMENT
        assert len(server.clients()) == 1


async def test_a_node_may_say_a_lot_of_itself(state: State, make: Make) -> None:
    async with witnessed(state, make) as (server, address), over_grpc(address) as wire:
        client = SotwClient(wire, metadata={"LONG": "x" * 100_000})
        await client.subscribe(CDS)
        await client.next()
        assert sorted(len(str(status.node.metadata)) > 100_000 for status in server.clients()) == [
            False,
            True,
        ]


async def test_a_message_that_is_too_long_is_refused(state: State, make: Make) -> None:
    async with witnessed(state, make, max_request_bytes=1_000_000) as (_, address):
        code = await status_of(address, b"\x0a" * 2_000_000)
        assert code is grpc.StatusCode.RESOURCE_EXHAUSTED


async def test_a_resource_of_five_megabytes_arrives(state: State, make: Make) -> None:
    body = b"\x0a\x03big\xaa\x06\x80\x80\xc0\x02" + b"x" * (5 * 1024 * 1024)
    big = Resource(name="big", type_url=CDS, body=body, version=content_version(body))
    async with witnessed(state, make) as (_, address), over_grpc(address) as wire:
        state.set(big)
        client = SotwClient(wire, node_id="n")
        await client.subscribe(CDS)
        assert (await client.next()).resources["big"] == body
        state.drop(CDS, "big")


@pytest.mark.slow
async def test_streams_that_say_nothing_end_and_leave_nothing(state: State, make: Make) -> None:
    # Long enough for the one that speaks.
    async with witnessed(state, make, first_request_within_s=5.0) as (server, address):
        async with AsyncExitStack() as stack:
            silent = [await stack.enter_async_context(over_grpc(address)) for _ in range(500)]

            async def ended(wire: Any) -> grpc.StatusCode:
                with pytest.raises(StreamEnded) as ends:
                    await wire.receive()
                return ends.value.code

            codes = await asyncio.gather(*(ended(wire) for wire in silent))
        assert set(codes) == {grpc.StatusCode.DEADLINE_EXCEEDED}
        assert len(server.clients()) == 1


async def test_a_client_that_asks_too_much_is_read_more_slowly(
    running: Running, state: State, make: Make, clock: ManualClock
) -> None:
    state.set(make.listener("l"))
    config = ServerConfig(requests_per_second=1)
    async with running(config=config, clock=clock) as server, in_memory(server) as wire:
        client = SotwClient(wire, node_id="n")
        for _ in range(4):
            await client.subscribe(types.LISTENER)  # the same without a nonce: asked anew
        for answered in (2, 3, 4):
            await clock.advance(0)
            assert wire.responses.qsize() == answered
            await clock.advance(1)
