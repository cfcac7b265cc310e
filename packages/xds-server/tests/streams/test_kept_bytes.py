"""The memory that clients make the server keep is bounded: of a stream, an identity, all."""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from functools import partial
from typing import Any

import grpc
import pytest
from prometheus_client import CollectorRegistry

from mesh_testkit import until
from xds_server import (
    Admission,
    Node,
    Peer,
    PlainListener,
    ServerConfig,
    XdsServer,
    serving,
)
from xds_server import type_urls as types
from xds_server.testing import (
    ADS_DELTA,
    ADS_SOTW,
    DeltaClient,
    SotwClient,
    StreamEnded,
    admit_all,
    in_memory,
    over_grpc,
)
from xds_state import Make, Running, State

KIB = 1024
DELTA, SOTW = "delta", "state of the world"
BOTH = pytest.mark.parametrize("dialect", [DELTA, SOTW])


def limits(*, stream: int = 1000, identity: int = 1000, in_all: int = 1000) -> ServerConfig:
    """The bounds in KiB."""
    return ServerConfig(
        max_kept_bytes_per_stream=stream * KIB,
        max_kept_bytes_per_identity=identity * KIB,
        max_kept_bytes=in_all * KIB,
    )


async def admit_by_node(node: Node, _peer: Peer) -> Admission[None]:
    """Stands for a proof: the part before the dash is the identity."""
    return Admission(context=None, identities=(f"spiffe://td/{node.id.partition('-')[0]}",))


def some(whose: str, number: int = 100) -> list[str]:
    """A hundred such names are estimated at 42 KiB."""
    return [f"outbound|80||{whose}-{n}.default.svc.cluster.local" for n in range(number)]


Client = DeltaClient | SotwClient


class Clients:
    """Clients of one server, in memory."""

    def __init__(self, server: XdsServer[None], stack: AsyncExitStack, dialect: str) -> None:
        self.server = server
        self._stack = stack
        self._delta = dialect == DELTA

    async def open(self, node_id: str) -> Client:
        wire = await self._stack.enter_async_context(in_memory(self.server, delta=self._delta))
        return (DeltaClient if self._delta else SotwClient)(wire, node_id=node_id)

    async def watch(self, node_id: str, *names: str) -> Client:
        client = await self.open(node_id)
        await client.subscribe(types.ENDPOINT, *names)
        await client.next()
        return client


@asynccontextmanager
async def clients_of(
    running: Running, dialect: str, config: ServerConfig
) -> AsyncIterator[Clients]:
    async with (
        running(config=config, admit=admit_by_node) as server,
        AsyncExitStack() as stack,
    ):
        yield Clients(server, stack, dialect)


async def refusal_of(client: Client) -> StreamEnded:
    with pytest.raises(StreamEnded) as ended:
        while True:
            await client.receive()
    assert ended.value.code is grpc.StatusCode.RESOURCE_EXHAUSTED
    return ended.value


def watches(server: XdsServer[None], name: str) -> bool:
    return any(name in each.types[types.ENDPOINT].names for each in server.clients())


@pytest.fixture
def endpoints(state: State, make: Make) -> None:
    """One name that there is, so that each subscription has an answer in both dialects."""
    state.set(make.endpoints("there"))


@BOTH
@pytest.mark.usefixtures("endpoints")
async def test_a_stream_over_its_bound_is_refused_and_others_of_its_identity_go_on(
    running: Running, dialect: str
) -> None:
    async with clients_of(running, dialect, limits(stream=100)) as clients:
        other = await clients.watch("a-1", "there", *some("a"))
        client = await clients.open("a-2")
        await client.subscribe(types.ENDPOINT, "there", *some("b", 300))
        refusal = await refusal_of(client)
        assert "one stream" in refusal.message
        assert "max_kept_bytes_per_stream" in refusal.message
        await other.subscribe(types.ENDPOINT, "there", *some("a", 101))
        assert [each.node.id for each in clients.server.clients()] == ["a-1"]


@BOTH
@pytest.mark.usefixtures("endpoints")
async def test_streams_of_one_identity_are_bounded_together_and_another_identity_has_its_own(
    running: Running, dialect: str
) -> None:
    async with clients_of(running, dialect, limits(identity=100)) as clients:
        for number in range(2):
            await clients.watch(f"a-{number}", "there", *some(f"a{number}"))
        client = await clients.open("a-3")
        await client.subscribe(types.ENDPOINT, "there", *some("a3"))
        refusal = await refusal_of(client)
        assert "spiffe://td/a" in refusal.message
        assert "max_kept_bytes_per_identity" in refusal.message
        await clients.watch("b-1", "there", *some("b"))
        assert len(clients.server.clients()) == 3


@pytest.mark.usefixtures("endpoints")
async def test_names_that_are_added_little_by_little_count_too(running: Running) -> None:
    async with clients_of(running, DELTA, limits(identity=100)) as clients:
        client = await clients.watch("a-1", "there", *some("a"))
        await client.subscribe(types.ENDPOINT, *some("b"))
        await client.next()
        await client.subscribe(types.ENDPOINT, *some("c"))
        await refusal_of(client)


@BOTH
@pytest.mark.usefixtures("endpoints")
async def test_names_that_are_given_up_make_room_and_so_does_the_end_of_a_stream(
    running: Running, dialect: str
) -> None:
    async with running(config=limits(identity=100), admit=admit_by_node) as server:
        for turn in range(5):
            async with in_memory(server, delta=dialect == DELTA) as wire:
                client = (DeltaClient if dialect == DELTA else SotwClient)(wire, node_id="a-1")
                await client.subscribe(types.ENDPOINT, "there", *some(f"x{turn}"))
                await client.next()
                if isinstance(client, DeltaClient):
                    await client.unsubscribe(types.ENDPOINT, *some(f"x{turn}"))
                else:
                    await client.subscribe(types.ENDPOINT, "there")
                last = some(f"y{turn}")
                await client.subscribe(types.ENDPOINT, "there", *last)
                await until(partial(watches, server, last[0]), what="the last names")
        await until(lambda: not server.clients(), what="the end of all streams")
        assert server._kept.bytes == 0


@BOTH
@pytest.mark.usefixtures("endpoints")
async def test_streams_that_watch_the_same_names_count_them_once(
    running: Running, dialect: str
) -> None:
    async with clients_of(running, dialect, limits(stream=60, identity=100, in_all=100)) as clients:
        for number in range(20):
            await clients.watch(f"a-{number}", "there", *some("same"))
        for number in range(20):
            await clients.watch(f"b{number}-1", "there", *some("same"))
        assert len(clients.server.clients()) == 40


@BOTH
@pytest.mark.usefixtures("endpoints")
async def test_in_all_a_stream_of_the_largest_holder_gives_way_to_one_that_comes(
    running: Running, dialect: str
) -> None:
    async with clients_of(running, dialect, limits(in_all=150)) as clients:
        large = [await clients.watch(f"a-{n}", "there", *some(f"a{n}")) for n in range(2)]
        largest = await clients.watch("a-3", "there", *some("a3", 120))
        await clients.watch("b-1", "there", *some("b", 50))
        refusal = await refusal_of(largest)
        assert "all clients" in refusal.message
        await until(lambda: len(clients.server.clients()) == 3, what="the end of its stream")
        for client in large:
            await client.subscribe(types.ENDPOINT, "there")


async def test_versions_that_a_client_says_it_has_count_until_it_is_answered(
    running: Running, state: State, make: Make
) -> None:
    state.set(make.endpoints("there"))
    async with clients_of(running, DELTA, limits(stream=100)) as clients:
        client = await clients.open("a-1")
        assert isinstance(client, DeltaClient)
        known = dict.fromkeys(some("a", 100), "v" * 50)
        await client.subscribe(types.ENDPOINT, "*", initial_versions=known)
        await client.next()
        account = clients.server._kept
        await until(lambda: account.bytes < 10 * KIB, what="the end of what was sent")
        many = await clients.open("a-2")
        assert isinstance(many, DeltaClient)
        versions = dict.fromkeys(some("b", 100), "v" * 1000)
        await many.subscribe(types.ENDPOINT, "*", initial_versions=versions)
        await refusal_of(many)


@BOTH
async def test_a_node_counts_by_what_it_is_parsed_into(running: Running, dialect: str) -> None:
    """A megabyte of empty lists is a hundred megabytes of Python's."""
    async with (
        running(config=limits(stream=100)) as server,
        in_memory(server, delta=dialect == DELTA) as wire,
    ):
        metadata: dict[str, Any] = {"LISTS": [[] for _ in range(2000)]}
        kind = DeltaClient if dialect == DELTA else SotwClient
        client = kind(wire, node_id="n", metadata=metadata)
        await client.subscribe(types.CLUSTER)
        await refusal_of(client)


@BOTH
async def test_words_that_are_kept_have_a_length(running: Running, dialect: str) -> None:
    long = "x" * 5000
    for type_url, names, node_id in (
        (f"type.googleapis.com/{long}", ["a"], "n"),
        (types.ENDPOINT, [long], "n"),
        (types.ENDPOINT, ["a"], long),
    ):
        async with running() as server, in_memory(server, delta=dialect == DELTA) as wire:
            client = (DeltaClient if dialect == DELTA else SotwClient)(wire, node_id=node_id)
            await client.subscribe(type_url, *names)
            with pytest.raises(StreamEnded) as ended:
                await client.receive()
            assert ended.value.code is grpc.StatusCode.INVALID_ARGUMENT


@BOTH
async def test_a_caller_without_identity_is_named_by_its_address_once_in_the_log(
    state: State, make: Make, caplog: pytest.LogCaptureFixture, dialect: str
) -> None:
    state.set(make.endpoints("there"))
    registry = CollectorRegistry()
    server: XdsServer[None] = XdsServer(
        {types.ENDPOINT: state}, admit=admit_all, config=limits(identity=100), registry=registry
    )
    server.set_ready()
    path, kind = (ADS_DELTA, DeltaClient) if dialect == DELTA else (ADS_SOTW, SotwClient)
    async with serving(server, [PlainListener()]) as bound, AsyncExitStack() as stack:
        for number in range(6):
            wire = await stack.enter_async_context(over_grpc(bound.addresses[0], path=path))
            client = kind(wire, node_id=f"n{number}")
            await client.subscribe(types.ENDPOINT, "there", *some(f"n{number}"))
            if number < 2:
                await client.next()
            else:
                refusal = await refusal_of(client)
                assert "all streams of 127.0.0.1 take" in refusal.message
        assert len(server.clients()) == 2
        kept = registry.get_sample_value("xds_server_kept_bytes")
        assert kept is not None
        assert 80 * KIB < kept < 100 * KIB
    assert [r.message for r in caplog.records if r.levelno >= logging.WARNING] == [
        "requests refused"
    ]
    over = registry.get_sample_value("xds_server_streams_over_kept_bytes", {"bound": "identity"})
    assert over == 4
