"""What is remembered of clients that have gone, and for how long."""

from __future__ import annotations

import asyncio

from envoy.config.core.v3 import base_pb2
from envoy.service.discovery.v3 import discovery_pb2

from mesh_lifecycle.testing import ManualClock
from xds_server import Resource, XdsServer
from xds_server import type_urls as types
from xds_server.protocol._resources_by_name import ResourcesByName
from xds_server.streams._last_clusters import LastClusters
from xds_server.subscriptions._sotw import NO_CLUSTERS, ClientClusters
from xds_server.testing import SotwClient, admit_all, in_memory
from xds_state import Make, State


class Stream:
    def __init__(self, *names: str) -> None:
        self._kept = ClientClusters(
            ResourcesByName(
                (n, Resource(name=n, type_url="t", body=b"", version="1")) for n in names
            ),
            frozenset("1"),
        )

    def client_clusters(self) -> ClientClusters:
        return self._kept


def test_the_last_stream_counts_whether_it_has_ended_or_not(clock: ManualClock) -> None:
    last = LastClusters(clock=clock)
    first, second, third = Stream("a"), Stream("b"), Stream("c")
    assert last.on_open("n", first) == NO_CLUSTERS
    assert last.on_open("n", second) == first.client_clusters()
    last.on_close("n", first)  # noticed late
    last.on_close("n", second)
    assert last.on_open("other", third) == NO_CLUSTERS
    assert last.on_open("n", third) == second.client_clusters()


def test_only_so_many_nodes_are_remembered(clock: ManualClock) -> None:
    last = LastClusters(clock=clock)
    for number in range(1001):
        stream = Stream("a")
        last.on_open(f"{number}", stream)
        last.on_close(f"{number}", stream)
    assert last.on_open("0", Stream()) == NO_CLUSTERS
    assert last.on_open("1", Stream()).clusters


async def test_who_does_not_come_back_is_forgotten(clock: ManualClock) -> None:
    last = LastClusters(clock=clock)
    running = asyncio.create_task(last.run())
    for name in ("early", "late"):
        stream = Stream("a")
        last.on_open(name, stream)
        last.on_close(name, stream)
        await clock.advance(100.0)
    assert len(last) == 2
    await clock.advance(150.0)
    assert len(last) == 1
    assert last.on_open("early", Stream()) == NO_CLUSTERS
    assert last.on_open("late", Stream()).clusters
    running.cancel()
    await asyncio.wait([running])


async def test_a_server_remembers_from_one_stream_to_the_next(state: State, make: Make) -> None:
    state.set(make.cluster("a", eds=False), make.cluster("b", eds=False))
    server: XdsServer[None] = XdsServer({types.CLUSTER: state}, admit=admit_all)
    server.set_ready()
    async with server.running():
        async with in_memory(server) as wire:
            first = SotwClient(wire, node_id="n")
            await first.subscribe(types.CLUSTER)
            version = (await first.next()).version
        state.drop(types.CLUSTER, "a")
        for named, clusters in ((version, {"a", "b"}), ("", {"b"})):
            async with in_memory(server) as wire:
                await wire.send(
                    discovery_pb2.DiscoveryRequest(
                        node=base_pb2.Node(id="n"), type_url=types.CLUSTER, version_info=named
                    ).SerializeToString()
                )
                reply = await SotwClient(wire).receive()
                assert reply.resources.keys() == clusters
