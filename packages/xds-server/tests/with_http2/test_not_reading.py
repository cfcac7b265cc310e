"""Clients that do not read: what they do to others, and what becomes of them, over each transport.

`XDS_SERVER_STALLED=1000` asks for as many as the figures in the README are of.
"""

from __future__ import annotations

import asyncio
import gc
import logging
import os
import statistics
import sys
import time
from collections import Counter
from contextlib import AsyncExitStack
from functools import partial
from typing import Any

import pytest
from prometheus_client import CollectorRegistry

from mesh_lifecycle.testing import ManualClock
from mesh_testkit import until
from xds_server import (
    Admission,
    Client,
    Node,
    NullObserver,
    Peer,
    PlainListener,
    PushRequest,
    Response,
    ServerConfig,
    XdsServer,
    serving,
)
from xds_server import type_urls as types
from xds_server.testing import admit_all
from xds_state import Make, State

CDS = types.CLUSTER
WINDOW = 1 << 20
MANY = 120
"""More than are written to at once."""
STALLED = int(os.environ.get("XDS_SERVER_STALLED", "200"))
READING = 100
PUSHES = 20
PATIENCE_S = 60
SEND_TIMEOUT_S = 60
"""As it is by default."""


class Sent(NullObserver):
    """Counts what was written to each node, and taken from the server."""

    def __init__(self) -> None:
        self.to: Counter[str] = Counter()

    def on_response(self, client: Client[object], _response: Response, /) -> None:
        self.to[client.node.id] += 1


def new_server(state: State, **options: Any) -> XdsServer[None]:
    server: XdsServer[None] = XdsServer({CDS: state}, admit=admit_all, **options)
    server.set_ready()
    return server


def are_connected(server: XdsServer[None], number: int) -> bool:
    return len(server.clients()) == number


async def push_to(
    server: XdsServer[None], state: State, make: Make, reader: Any, stream: int
) -> None:
    """Change something again and again; the one who reads gets each change."""
    async with asyncio.timeout(PATIENCE_S):
        for change in range(1, PUSHES + 1):
            state.set(make.cluster("a", change=change))
            server.push_now(PushRequest())
            response = await reader.next(stream)
            assert response.resources[0].value == state.resources[CDS]["a"].body


async def test_many_streams_of_a_connection_that_is_not_read_hold_up_no_others(
    state: State, make: Make, http2: Any
) -> None:
    state.set(make.cluster("a"))
    server = new_server(state)
    async with serving(server, [PlainListener()]) as bound:
        address = bound.addresses[0]
        async with http2(address, window=0) as deaf, http2(address, window=WINDOW) as reader:
            for number in range(MANY):
                await deaf.subscribe(CDS, node_id=f"deaf-{number}")
            await until(lambda: len(server.clients()) == MANY, what="every stream")
            stream = await reader.subscribe(CDS, node_id="reader")
            await reader.next(stream)
            await push_to(server, state, make, reader, stream)


async def test_many_clients_that_do_not_read_their_first_answer_hold_up_no_others(
    state: State, make: Make, transport: Any
) -> None:
    state.set(make.cluster("a"))
    server = new_server(state)
    async with serving(server, [transport.listener]) as bound, AsyncExitStack() as stack:
        address = bound.addresses[0]
        for number in range(MANY):
            deaf = await stack.enter_async_context(transport.connect(address, window=0))
            await deaf.subscribe(CDS, node_id=f"deaf-{number}")
        await until(lambda: len(server.clients()) == MANY, what="every stream")
        reader = await stack.enter_async_context(transport.connect(address, window=WINDOW))
        stream = await reader.subscribe(CDS, node_id="reader")
        await reader.next(stream)
        await push_to(server, state, make, reader, stream)


async def test_clients_that_stop_reading_later_hold_up_no_others(
    state: State, make: Make, transport: Any
) -> None:
    """They read their first answer, so that they have a place among those written to."""
    state.set(make.cluster("a", change=0))
    first = len(state.resources[CDS]["a"].body) + 200  # room for the first response, no second
    server = new_server(state, config=ServerConfig(concurrent_pushes=2))
    async with serving(server, [transport.listener]) as bound, AsyncExitStack() as stack:
        address = bound.addresses[0]
        for number in range(MANY):
            deaf = await stack.enter_async_context(transport.connect(address, window=first))
            deaf.reads = False
            await deaf.next(await deaf.subscribe(CDS, node_id=f"deaf-{number}"))
        reader = await stack.enter_async_context(transport.connect(address, window=WINDOW))
        stream = await reader.subscribe(CDS, node_id="reader")
        await reader.next(stream)
        await push_to(server, state, make, reader, stream)


async def test_a_caller_that_fills_the_room_and_does_not_read_holds_up_no_caller_who_is_another(
    state: State, make: Make, http2: Any
) -> None:
    """Time stands still, so that no client is closed for it: there has to be room for the other."""
    state.set(*(make.cluster(f"cluster-{number}") for number in range(2000)))
    size = 256 * 1024
    config = ServerConfig(
        max_pending_write_bytes=10 * size,
        max_pending_write_bytes_per_identity=6 * size,
        concurrent_write_bytes=8 * size,
    )
    server: XdsServer[None] = XdsServer(
        {CDS: state}, admit=admit_by_node, config=config, clock=ManualClock()
    )
    server.set_ready()
    async with serving(server, [PlainListener()]) as bound:
        address = bound.addresses[0]
        async with http2(address, window=0) as deaf, http2(address, window=16 * size) as reader:
            for number in range(40):
                await deaf.subscribe(CDS, node_id=f"deaf-{number}")
            await until(partial(are_connected, server, 40), what="every stream")
            for number in range(3):
                stream = await reader.subscribe(CDS, node_id=f"reader-{number}")
                async with asyncio.timeout(PATIENCE_S):
                    response = await reader.next(stream)
                assert len(response.resources) == 2000
                assert 64 * 1024 < response.ByteSize() < size  # smaller ones do not wait for room
            assert server._pending_writes.bytes < 8 * size


async def admit_by_node(node: Node, _peer: Peer) -> Admission[None]:
    """Stands for a proof: the part before the dash is the identity."""
    return Admission(context=None, identities=(node.id.partition("-")[0],))


@pytest.mark.parametrize("responses", [0, 1], ids=["its first answer", "a push"])
async def test_a_client_that_does_not_read_is_closed_logged_and_counted(
    *,
    state: State,
    make: Make,
    transport: Any,
    clock: ManualClock,
    caplog: pytest.LogCaptureFixture,
    responses: int,
) -> None:
    """Time passes only while nothing is on its way to the one that reads."""
    state.set(make.cluster("a"))
    window = responses * (len(state.resources[CDS]["a"].body) + 200)
    registry = CollectorRegistry()
    sent = Sent()
    server = new_server(state, registry=registry, clock=clock, observer=sent)
    async with serving(server, [transport.listener]) as bound:
        address = bound.addresses[0]
        async with (
            transport.connect(address, window=WINDOW) as reader,
            transport.connect(address, window=window) as deaf,
        ):
            deaf.reads = False
            stream = await reader.subscribe(CDS, node_id="reader")
            await reader.next(stream)
            with caplog.at_level(logging.WARNING):
                await deaf.subscribe(CDS, node_id="deaf")
                await until(lambda: len(server.clients()) == 2, what="its stream")
                await push_to(server, state, make, reader, stream)
                await until(lambda: sent.to["reader"] == 1 + PUSHES, what="the end of the writing")
                for _ in range(SEND_TIMEOUT_S):
                    await clock.advance(1)
                async with asyncio.timeout(PATIENCE_S):
                    await deaf.closed.wait()
            await until(lambda: len(server.clients()) == 1, what="the end of its stream")
            await push_to(server, state, make, reader, stream)
    (said,) = [record for record in caplog.records if record.name.startswith("xds_server")]
    assert said.message == "client closed, it does not read"
    assert vars(said)["client"].rpartition("-")[0] == "deaf"
    assert registry.get_sample_value("pilot_xds_write_timeout") == 1
    assert registry.get_sample_value("xds_server_pending_write_bytes") == 0


@pytest.mark.slow
async def test_a_crowd_that_does_not_read_leaves_the_times_of_others_as_they_are(
    state: State, make: Make, http2: Any, capsys: Any
) -> None:
    """No time is asserted: the ratio is printed, of what came before and after in one run."""
    state.set(make.cluster("a"))
    server = new_server(state)
    async with serving(server, [PlainListener()]) as bound, AsyncExitStack() as stack:
        address = bound.addresses[0]
        readers = []
        for number in range(READING):
            reader = await stack.enter_async_context(http2(address, window=WINDOW))
            stream = await reader.subscribe(CDS, node_id=f"reader-{number}")
            await reader.next(stream)
            readers.append((reader, stream))

        async def push_often() -> list[float]:
            took_s: list[float] = []
            gc.collect()
            gc.freeze()  # Clients and server share a process and its pauses.

            async def read(reader: Any, stream: int, started: float) -> None:
                response = await reader.next(stream)
                assert response.resources[0].value == state.resources[CDS]["a"].body
                took_s.append(time.monotonic() - started)

            async with asyncio.timeout(PATIENCE_S):
                for _ in range(PUSHES):
                    changes.append(len(changes))
                    state.set(make.cluster("a", change=len(changes)))
                    started = time.monotonic()
                    server.push_now(PushRequest())
                    await asyncio.gather(*(read(*reader, started) for reader in readers))
            return took_s

        changes: list[int] = []
        await push_often()
        alone = await push_often()
        for connection in range(STALLED // 100):
            deaf = await stack.enter_async_context(http2(address, window=0))
            for number in range(100):
                await deaf.subscribe(CDS, node_id=f"deaf-{connection}-{number}")
            there = READING + 100 * (connection + 1)
            await until(partial(are_connected, server, there), what=f"{there} streams")
        await push_often()
        beside = await push_often()
    gc.unfreeze()
    alone_s, beside_s = (statistics.quantiles(took, n=100)[98] for took in (alone, beside))
    ratio = statistics.median(beside) / statistics.median(alone)
    with capsys.disabled():
        sys.stdout.write(
            f"\n99 % of {READING} readers had a change after {1000 * alone_s:.0f} ms, beside"
            f" {STALLED} streams that are not read after {1000 * beside_s:.0f} ms:"
            f" {beside_s / alone_s:.2f} times; half of them {ratio:.2f} times\n"
        )
