"""Generators that are notified of clients, and who is connected as a type of its own."""

from __future__ import annotations

from typing import Any

import grpc
import pytest
from envoy.config.core.v3 import base_pb2

from xds_server import Client, ConfigKey, ConnectedClients, NullObserver, PushRequest, Refused
from xds_server import type_urls as types
from xds_server.testing import DeltaClient, SotwClient, StreamEnded, in_memory
from xds_state import Make, Running, Settle, State

CONNECTED = "type.googleapis.com/envoy.config.core.v3.Node"


@pytest.mark.parametrize("delta", [False, True])
async def test_who_watches_sees_those_who_are_there_and_each_who_comes_and_goes(
    running: Running, *, delta: bool
) -> None:
    async with (
        running(generators={CONNECTED: ConnectedClients()}) as server,
        in_memory(server, delta=delta) as wire,
    ):
        kind = DeltaClient if delta else SotwClient
        watcher = kind(wire, node_id="watcher")
        await watcher.subscribe(CONNECTED)
        (own,) = (await watcher.next()).resources.values()
        assert base_pb2.Node.FromString(own).id == "watcher"
        async with in_memory(server) as other_wire:
            other = SotwClient(other_wire, node_id="other")
            await other.subscribe(types.CLUSTER)
            came = await watcher.next()
            assert "other" in {base_pb2.Node.FromString(b).id for b in came.resources.values()}
        await watcher.next()
        have = {base_pb2.Node.FromString(body).id for body in watcher.resources(CONNECTED).values()}
        assert have == {"watcher"}


class Follows:
    """Notes what it is notified of and asked for; the first time it is notified, it may fail."""

    def __init__(self, *, fails: bool = False) -> None:
        self.events: list[str] = []
        self._fails = fails

    def on_connect(self, client: Client[Any], /) -> None:
        self.events.append(f"{client.id} came")
        if self._fails:
            raise RuntimeError("a fault of the generator's")

    def on_disconnect(self, client: Client[Any], /) -> None:
        self.events.append(f"{client.id} went")

    def generate(self, *_: Any) -> None:
        return None


async def test_only_those_who_watch_the_type_are_pushed_to(
    running: Running, state: State, make: Make, settle: Settle
) -> None:
    state.set(make.cluster("a"))
    follows = Follows()
    generators = {types.CLUSTER: state, CONNECTED: follows}
    async with running(generators=generators) as server:
        async with in_memory(server) as wire:
            client = SotwClient(wire, node_id="n")
            await client.subscribe(types.CLUSTER)
            await client.next()
            state.requested.clear()
            async with in_memory(server) as other_wire:
                await SotwClient(other_wire, node_id="m").subscribe(CONNECTED)
                await settle()
        assert follows.events == ["n-1 came", "m-2 came", "m-2 went", "n-1 went"]
        assert state.requested == []


async def test_a_push_for_a_client_names_it(running: Running, state: State, settle: Settle) -> None:
    follows = Follows()
    async with running(generators={types.SECRET: state, CONNECTED: follows}) as server:
        async with in_memory(server, delta=True) as wire:
            watcher = DeltaClient(wire)
            await watcher.subscribe(CONNECTED)
            await watcher.subscribe(types.SECRET, "s")
            await watcher.next()
            state.requested.clear()
            async with in_memory(server) as other_wire:
                await SotwClient(other_wire, node_id="m").subscribe(types.CLUSTER)
                await settle()
                ((_, push),) = state.requested
    assert isinstance(push, PushRequest)
    assert push.configs_updated == {ConfigKey("Client", "m-2", "")}
    assert push.triggers == ("connect",)
    assert push.incremental


async def test_a_generator_that_fails_when_notified_costs_no_stream(
    running: Running, state: State, make: Make
) -> None:
    state.set(make.cluster("a"))
    generators = {types.CLUSTER: state, CONNECTED: Follows(fails=True)}
    async with running(generators=generators) as server, in_memory(server) as wire:
        client = SotwClient(wire)
        await client.subscribe(types.CLUSTER)
        assert set((await client.next()).resources) == {"a"}


class Refuses(NullObserver):
    def on_open(self, _client: Client[object], /) -> None:
        raise Refused(grpc.StatusCode.PERMISSION_DENIED, "not today")


async def test_who_is_refused_on_arrival_is_not_among_them(running: Running) -> None:
    connected = ConnectedClients()
    options = {"generators": {CONNECTED: connected}, "observer": Refuses()}
    async with running(**options) as server, in_memory(server) as wire:
        await SotwClient(wire).subscribe(CONNECTED)
        with pytest.raises(StreamEnded):
            await wire.receive()
