"""What clients leave behind, which is nothing, and when their memory is given back."""

from __future__ import annotations

import asyncio
import gc
import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager

import pytest

from mesh_lifecycle import in_background, release_unused_memory
from mesh_lifecycle.testing import ManualClock
from mesh_testkit import until
from xds_server import Client, NullObserver, PlainListener, PushRequest, XdsServer, serving
from xds_server import type_urls as types
from xds_server._memory_release import MemoryRelease
from xds_server.streams._connection import Connection
from xds_server.testing import (
    ADS_DELTA,
    ADS_SOTW,
    DeltaClient,
    SotwClient,
    admit_all,
    over_grpc,
)
from xds_state import Make, State


class Releases:
    """Memory that can be given back, and how often it was."""

    def __init__(self) -> None:
        self.given_back = 0
        self.trimmed = 0

    async def release(self) -> bool:
        self.given_back += 1
        return True

    def trim(self) -> bool:
        self.trimmed += 1
        return True


@pytest.fixture
def releases() -> Releases:
    return Releases()


@asynccontextmanager
async def keeping(
    clock: ManualClock, releases: Releases, *, quiet_s: float | None = 10
) -> AsyncIterator[MemoryRelease]:
    releasing = MemoryRelease(
        quiet_s=quiet_s, clock=clock, release=releases.release, trim=releases.trim
    )
    async with in_background(releasing.run(), name="memory"):
        yield releasing


async def test_it_is_given_back_once_when_most_have_gone(
    clock: ManualClock, releases: Releases
) -> None:
    async with keeping(clock, releases) as releasing:
        releasing.count(1000)
        releasing.count(400)
        await clock.advance(9.9)
        assert releases.given_back == 0
        await clock.advance(0.1)
        assert releases.given_back == 1
        await clock.advance(100)
        assert releases.given_back == 1
        releasing.count(150)  # from 400: again most of them
        await clock.advance(10)
        assert releases.given_back == 2


async def test_it_waits_until_no_client_comes_or_goes(
    clock: ManualClock, releases: Releases
) -> None:
    async with keeping(clock, releases) as releasing:
        releasing.count(1000)
        for clients in range(400, 0, -100):
            releasing.count(clients)
            await clock.advance(9)
        assert releases.given_back == 0
        await clock.advance(1)
        assert releases.given_back == 1


@pytest.mark.parametrize(("most", "left"), [(1000, 501), (150, 51)])
async def test_it_is_kept_for_those_who_stay(
    clock: ManualClock, releases: Releases, most: int, left: int
) -> None:
    async with keeping(clock, releases) as releasing:
        releasing.count(most)
        releasing.count(left)
        await clock.advance(100)
        assert releases.given_back == 0


async def test_it_is_kept_for_those_who_come_back(clock: ManualClock, releases: Releases) -> None:
    async with keeping(clock, releases) as releasing:
        releasing.count(1000)
        releasing.count(0)
        await clock.advance(5)
        releasing.count(1000)
        await clock.advance(100)
        assert releases.given_back == 0


async def test_it_is_kept_if_the_host_does_not_ask(clock: ManualClock, releases: Releases) -> None:
    async with keeping(clock, releases, quiet_s=None) as releasing:
        releasing.count(1000)
        releasing.on_push()
        releasing.count(0)
        await clock.advance(1000)
        assert releases.given_back == releases.trimmed == 0


async def test_what_a_push_needed_is_given_back_when_it_is_quiet(
    clock: ManualClock, releases: Releases
) -> None:
    async with keeping(clock, releases) as releasing:
        releasing.count(200)
        await clock.advance(10)
        assert releases.trimmed == 1  # what the first responses needed
        await clock.advance(100)
        assert releases.trimmed == 1
        for _ in range(3):
            releasing.on_push()
            await clock.advance(9)
        assert releases.trimmed == 1
        await clock.advance(1)
        assert releases.trimmed == 2
        assert releases.given_back == 0


async def test_a_push_to_few_needs_little(clock: ManualClock, releases: Releases) -> None:
    async with keeping(clock, releases) as releasing:
        releasing.count(99)
        releasing.on_push()
        await clock.advance(1000)
        assert releases.trimmed == 0


async def test_clients_that_have_gone_are_not_forgotten_over_a_push(
    clock: ManualClock, releases: Releases
) -> None:
    async with keeping(clock, releases) as releasing:
        releasing.count(1000)
        releasing.count(300)
        await clock.advance(5)
        releasing.on_push()
        await clock.advance(10)
        assert (releases.given_back, releases.trimmed) == (1, 0)


async def test_asking_the_allocator_works_or_does_nothing() -> None:
    assert await release_unused_memory() in ({True, False} if sys.platform == "linux" else {False})


@pytest.fixture
def without_collector() -> Iterator[None]:
    """What is not freed by its last reference stays."""
    gc.collect()
    gc.disable()
    yield
    gc.enable()


def connections() -> int:
    return sum(isinstance(thing, Connection) for thing in gc.get_objects())


class Ends(NullObserver):
    """Says how many streams are over."""

    def __init__(self) -> None:
        self.ended: asyncio.Queue[Client[object]] = asyncio.Queue()

    def on_close(self, client: Client[object], /) -> None:
        self.ended.put_nowait(client)


@pytest.mark.usefixtures("without_collector")
@pytest.mark.parametrize("delta", [False, True])
@pytest.mark.parametrize("farewell", ["cancelled", "garbage"])
async def test_an_ended_stream_is_freed_and_a_cancelled_one_without_the_garbage_collector(
    state: State, make: Make, farewell: str, *, delta: bool
) -> None:
    state.set(make.cluster("a"))
    before, ends = connections(), Ends()
    path, kind = (ADS_DELTA, DeltaClient) if delta else (ADS_SOTW, SotwClient)
    server: XdsServer[None] = XdsServer({types.CLUSTER: state}, admit=admit_all, observer=ends)
    server.set_ready()
    async with serving(server, [PlainListener()]) as bound:
        for _ in range(8):
            async with over_grpc(bound.addresses[0], path=path) as wire:
                client = kind(wire)
                await client.subscribe(types.CLUSTER)
                await client.next()
                server.push_now(PushRequest())
                if farewell == "garbage":
                    await wire.send(b"\xff\xff\xff")
            await ends.ended.get()
        assert server.clients() == ()

        def are_freed() -> bool:
            if farewell == "garbage":  # an error and the frames that it passed hold each other
                gc.collect()
            return connections() - before <= 2  # gRPC keeps the last ones until others come

        await until(are_freed, what="all but two to be freed", seen=lambda: connections() - before)
