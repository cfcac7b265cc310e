"""Responses of megabytes to many clients at once: bounded in memory, and no client is sent away."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any

import pytest
from envoy.config.cluster.v3 import cluster_pb2

from mesh_testkit import until
from xds_server import (
    PlainListener,
    Resource,
    ServerConfig,
    Snapshot,
    SnapshotStore,
    XdsServer,
    serving,
)
from xds_server import type_urls as types
from xds_server.testing import SotwClient, admit_all, over_grpc

CDS = types.CLUSTER
SIZE = 1_500_000
CLIENTS = 40
DEAF = 100
PATIENCE_S = 120


def snapshot(version: str) -> Snapshot:
    padding = version * (SIZE // 10)
    return Snapshot.build(
        [
            Resource.pack(cluster_pb2.Cluster(name=f"{n}", alt_stat_name=padding), name=f"{n}")
            for n in range(10)
        ]
    )


class Peak:
    """The most bytes that were pending whenever anything else ran."""

    def __init__(self, server: XdsServer[None]) -> None:
        self._pending = server._pending_writes
        self.bytes = 0

    async def watch(self) -> None:
        while True:
            self.bytes = max(self.bytes, self._pending.bytes)
            await asyncio.sleep(0)


@asynccontextmanager
async def large(
    config: ServerConfig,
) -> AsyncIterator[tuple[XdsServer[None], SnapshotStore[None], str, Peak]]:
    """A server of large responses, its store, where it listens, and what was pending at most."""
    store: SnapshotStore[None] = SnapshotStore(group_of=lambda _client: "all")
    store.set("all", snapshot("1"))
    server = XdsServer(
        store.generators(), admit=admit_all, needs_push=store.needs_push, config=config
    )
    server.set_ready()
    peak = Peak(server)
    async with serving(server, [PlainListener()]) as bound:
        watching = asyncio.create_task(peak.watch())
        try:
            yield server, store, bound.addresses[0], peak
        finally:
            watching.cancel()


async def read_both(client: SotwClient) -> None:
    """Read the first answer and a push."""
    async with asyncio.timeout(PATIENCE_S):
        await client.subscribe(CDS)
        assert len((await client.next()).resources) == 10
        while not client.resources(CDS)["0"].endswith(b"2"):
            await client.next()


async def test_many_clients_that_connect_at_once_get_all_of_it_in_bounded_memory(
    caplog: pytest.LogCaptureFixture,
) -> None:
    config = ServerConfig(concurrent_write_bytes=3 * SIZE, max_pending_write_bytes=8 * SIZE)
    async with large(config) as (server, store, address, peak), AsyncExitStack() as stack:
        clients = []
        for number in range(CLIENTS):
            wire = await stack.enter_async_context(over_grpc(address))
            clients.append(SotwClient(wire, node_id=f"reader-{number}"))
        with caplog.at_level(logging.WARNING):
            reading = [asyncio.create_task(read_both(client)) for client in clients]
            await until(lambda: len(server.clients()) == CLIENTS, what="every stream")
            server.push_now(store.set("all", snapshot("2")))
            await asyncio.gather(*reading)
        assert len(server.clients()) == CLIENTS
    assert caplog.records == []
    assert 2 * SIZE < peak.bytes <= config.max_pending_write_bytes + SIZE + 1000


async def test_beside_a_hundred_that_never_read_the_others_get_all_of_it_in_bounded_memory(
    http2: Any, caplog: pytest.LogCaptureFixture
) -> None:
    most = 40 * SIZE
    config = ServerConfig(
        concurrent_write_bytes=20 * SIZE, max_pending_write_bytes=most, stalled_client_s=0.05
    )
    async with large(config) as (server, store, address, peak), AsyncExitStack() as stack:
        with caplog.at_level(logging.WARNING):
            for number in range(DEAF):
                deaf = await stack.enter_async_context(http2(address, window=0))
                await deaf.subscribe(CDS, node_id=f"deaf-{number}")
            readers = []
            for number in range(10):
                wire = await stack.enter_async_context(over_grpc(address))
                readers.append(SotwClient(wire, node_id=f"reader-{number}"))
            reading = [asyncio.create_task(read_both(client)) for client in readers]
            await until(
                lambda: sum(c.node.id.startswith("reader") for c in server.clients()) == 10,
                what="every stream",
            )
            server.push_now(store.set("all", snapshot("2")))
            await asyncio.gather(*reading)
        still = [client.node.id for client in server.clients()]
    assert sum(each.startswith("reader") for each in still) == 10
    closed = [vars(record)["client"] for record in caplog.records]
    assert all(client.startswith("deaf") for client in closed)
    assert len(closed) >= DEAF - most // SIZE - 1
    assert peak.bytes <= most + SIZE + 1000
