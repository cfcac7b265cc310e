"""Messages that peers have not taken: how long they wait, and how much there is of them."""

import asyncio

import pytest

from mesh_listening import PendingWrites


class Reader:
    def __init__(self) -> None:
        self.closed: list[tuple[float, int, str]] = []

    def close_for_not_reading(self, *, waited_s: float, size: int, reason: str) -> None:
        self.closed.append((waited_s, size, reason))


class ManualClock:
    """Time that passes only when told to."""

    def __init__(self) -> None:
        self._at = 1000.0
        self._sleepers: list[tuple[float, asyncio.Future[None]]] = []

    def monotonic(self) -> float:
        return self._at

    async def sleep(self, seconds: float, /) -> None:
        wakes = asyncio.get_running_loop().create_future()
        self._sleepers.append((self._at + seconds, wakes))
        await wakes

    async def advance(self, seconds: float) -> None:
        """Let time pass, and run the tasks that slept until then."""
        await settle()
        self._at += seconds
        for at, wakes in self._sleepers:
            if at <= self._at and not wakes.done():
                wakes.set_result(None)
        self._sleepers = [sleeper for sleeper in self._sleepers if not sleeper[1].done()]
        await settle()


async def settle() -> None:
    """Let every task run until all of them wait."""
    for _ in range(20):
        await asyncio.sleep(0)


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
def untaken(clock: ManualClock) -> PendingWrites:
    return PendingWrites(longest_s=60.0, max_bytes=1000, slow_s=1.0, clock=clock)


async def test_a_reader_that_has_not_read_for_the_longest_time_is_closed(
    untaken: PendingWrites, clock: ManualClock
) -> None:
    task = asyncio.create_task(untaken.run())
    slow, quick = Reader(), Reader()
    untaken.begin(slow, 100)
    for _ in range(61):
        untaken.begin(quick, 10)
        assert untaken.end(quick) == 0
        await clock.advance(1.0)
    assert [(waited_s, size) for waited_s, size, _ in slow.closed] == [(60.0, 100)]
    assert quick.closed == []
    assert untaken.bytes == 0
    untaken.end(slow)  # its write is given up, which counts for nothing any more
    assert untaken.bytes == 0
    task.cancel()


async def test_with_too_much_pending_the_readers_that_take_longest_are_closed(
    untaken: PendingWrites, clock: ManualClock
) -> None:
    first, second, third = Reader(), Reader(), Reader()
    untaken.begin(first, 600)
    await clock.advance(1.5)
    untaken.begin(second, 300)
    untaken.begin(third, 300)
    assert (len(first.closed), len(second.closed), len(third.closed)) == (1, 0, 0)
    assert untaken.bytes == 600


async def test_a_reader_that_is_not_slow_yet_is_not_closed_however_much_is_pending(
    untaken: PendingWrites, clock: ManualClock
) -> None:
    task = asyncio.create_task(untaken.run())
    large = Reader()
    untaken.begin(large, 5000)
    await clock.advance(0.5)
    assert large.closed == []
    await clock.advance(1.0)
    assert len(large.closed) == 1
    task.cancel()


async def test_without_a_longest_time_no_reader_is_closed_for_it(clock: ManualClock) -> None:
    untaken = PendingWrites(longest_s=None, max_bytes=1000, slow_s=1.0, clock=clock)
    task = asyncio.create_task(untaken.run())
    reader = Reader()
    untaken.begin(reader, 100)
    for _ in range(5):
        await clock.advance(100)
    assert reader.closed == []
    task.cancel()
