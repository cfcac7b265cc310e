"""What goes wrong costs as little as it can, and the log says it once."""

from __future__ import annotations

import asyncio
import logging
from contextlib import AsyncExitStack

import grpc
import pytest
from prometheus_client import CollectorRegistry

from mesh_lifecycle.testing import ManualClock
from xds_server import Client, PushRequest, ServerConfig
from xds_server import type_urls as types
from xds_server.testing import SotwClient, StreamEnded, in_memory
from xds_state import Make, Running, Settle, State

CDS, LDS, RDS = types.CLUSTER, types.LISTENER, types.ROUTE


REFUSED = "response refused by client"


async def test_a_filter_that_raises_for_one_client_costs_no_client_the_push(
    running: Running, state: State, make: Make, caplog: pytest.LogCaptureFixture
) -> None:
    def needs_push(client: Client[None], _request: PushRequest) -> bool:
        if client.node.id.startswith("odd"):
            raise ValueError(client.node.id)
        return True

    registry = CollectorRegistry()
    state.set(make.cluster("a"))
    async with running(needs_push=needs_push, registry=registry) as server:
        async with AsyncExitStack() as stack:
            clients = []
            for node_id in ("odd-1", "x", "odd-2", "y"):
                wire = await stack.enter_async_context(in_memory(server))
                clients.append(SotwClient(wire, node_id=node_id))
                await clients[-1].subscribe(CDS)
                await clients[-1].next()
            state.set(make.cluster("b"))
            server.push_now(PushRequest())
            for client in clients:
                assert set((await client.next()).resources) == {"a", "b"}
    assert registry.get_sample_value("pilot_total_xds_internal_errors") == 2
    assert sum("needs a push failed" in record.message for record in caplog.records) == 1


async def test_equal_refusals_are_logged_once(
    running: Running, state: State, make: Make, caplog: pytest.LogCaptureFixture
) -> None:
    async with running() as server, in_memory(server) as wire:
        client = SotwClient(wire)
        state.set(make.cluster("a"))
        await client.subscribe(CDS)
        for change in range(1, 201):
            await client.nack(await client.receive(), "no such thing")
            state.set(make.cluster("a", change=change))
            server.push_now(PushRequest())
        await client.next()
    refusals = [r.message for r in caplog.records if "refused" in r.message]
    assert refusals[:1] == [REFUSED]
    assert REFUSED not in refusals[1:]


async def test_a_refusal_for_another_reason_is_logged_unless_there_are_many(
    running: Running, state: State, make: Make, caplog: pytest.LogCaptureFixture
) -> None:
    async with running() as server, in_memory(server) as wire:
        client = SotwClient(wire)
        state.set(make.cluster("a"))
        await client.subscribe(CDS)
        for change in range(1, 201):
            # Reasons that differ in a number alone are one.
            await client.nack(await client.receive(), f"reason {'i' * change}")
            state.set(make.cluster("a", change=change))
            server.push_now(PushRequest())
        await client.next()
    refusals = [vars(r)["reason"] for r in caplog.records if r.message == REFUSED]
    assert refusals == [f"reason {'i' * change}" for change in range(1, 11)]


async def test_of_a_long_refusal_the_beginning_is_kept_and_logged(
    running: Running, state: State, make: Make, caplog: pytest.LogCaptureFixture, settle: Settle
) -> None:
    async with running() as server, in_memory(server) as wire:
        client = SotwClient(wire)
        state.set(make.cluster("a"))
        await client.subscribe(CDS)
        await client.nack(await client.receive(), "x" * 1_000_000)
        await settle()
        nack = server.clients()[0].types[CDS].nack
        assert nack is not None
        assert nack.message == "x" * 4096 + "... (995904 more characters)"
        (said,) = [r for r in caplog.records if r.name.startswith("xds_server")]
        assert vars(said)["reason"] == nack.message


async def test_a_response_over_the_limit_ends_its_stream_and_is_logged_and_counted(
    running: Running, state: State, make: Make, caplog: pytest.LogCaptureFixture
) -> None:
    registry = CollectorRegistry()
    state.set(*(make.cluster(f"cluster-{n}") for n in range(20)), make.listener("l"))
    config = ServerConfig(max_message_bytes=400)
    async with running(config=config, registry=registry) as server:
        async with in_memory(server) as small, in_memory(server) as large:
            other = SotwClient(small)
            await other.subscribe(LDS)
            await other.next()
            client = SotwClient(large, node_id="n")
            await client.subscribe(CDS)
            with pytest.raises(StreamEnded, match="at most 400 can be sent") as ended:
                await client.receive()
            assert ended.value.code is grpc.StatusCode.RESOURCE_EXHAUSTED
            assert len(server.clients()) == 1
    (said,) = [
        record
        for record in caplog.records
        if record.name.startswith("xds_server") and record.levelno == logging.ERROR
    ]
    assert (vars(said)["type_url"], vars(said)["max_message_bytes"]) == (CDS, 400)
    labels = {"type": "cds"}
    assert registry.get_sample_value("xds_server_too_large_responses", labels) == 1


async def test_endpoint_changes_wait_neither_for_their_end_nor_for_other_changes(
    running: Running, clock: ManualClock
) -> None:
    """Fifty of each a second, so that it is never quiet."""
    config = ServerConfig(debounce_quiet_s=0.1, debounce_maximum_s=10.0)
    built: list[tuple[float, bool]] = []

    def build(request: PushRequest) -> None:
        built.append((clock.monotonic(), request.incremental))

    started = clock.monotonic()
    async with running(config=config, clock=clock, build=build) as server:
        for _ in range(500):
            server.notify(PushRequest(incremental=True))
            server.notify(PushRequest())
            await clock.advance(0.02)
    endpoints = [at for at, incremental in built if incremental]
    waits = [
        after - before for before, after in zip([started, *endpoints], endpoints, strict=False)
    ]
    assert len(endpoints) >= 18
    assert max(waits) <= 0.6
    assert sum(not incremental for _, incremental in built) <= 1


async def test_what_is_asked_for_while_changes_are_gathered_comes_after_its_clusters(
    running: Running, state: State, make: Make, clock: ManualClock
) -> None:
    """The generators work on live state, which has the new clusters and the new listener."""
    config = ServerConfig(debounce_quiet_s=5.0)
    async with running(config=config, clock=clock) as server, in_memory(server) as wire:
        client = SotwClient(wire)
        state.set(make.cluster("a", eds=False))
        await client.subscribe(CDS)
        await client.next()
        state.set(make.cluster("b", eds=False), make.http_listener("l", route="r"))
        server.notify(PushRequest())
        await client.subscribe(LDS)
        async with asyncio.timeout(60):
            replies = [await client.next() for _ in range(2)]
    assert [reply.type_url for reply in replies] == [CDS, LDS]
