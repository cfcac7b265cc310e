"""Messages that peers have not taken: how long they wait, and how much there is of them."""

import asyncio

import pytest

from mesh_listening import PendingWrites
from mesh_listening.limits._pending_writes import STEADY_BYTES


class Reader:
    def __init__(self) -> None:
        self.closed: list[tuple[float, int, str]] = []

    def close_for_not_reading(self, *, waited_s: float, size: int, reason: str) -> None:
        self.closed.append((waited_s, size, reason))


class ManualClock:
    """Time that passes only when a test says so."""

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
        """Let time pass, and run each task that slept until its time."""
        await settle()
        end = self._at + seconds
        while due := [sleeper for sleeper in self._sleepers if sleeper[0] <= end]:
            sleeper = min(due, key=lambda each: each[0])
            self._sleepers.remove(sleeper)
            self._at = max(self._at, sleeper[0])
            if not sleeper[1].done():
                sleeper[1].set_result(None)
            await settle()
        self._at = end

    def pass_unnoticed(self, seconds: float) -> None:
        """Let time pass in which no task runs."""
        self._at += seconds


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


class Taking:
    """How much a peer has taken."""

    def __init__(self) -> None:
        self.bytes = 0

    def __call__(self) -> int:
        return self.bytes


async def test_a_reader_that_goes_on_reading_is_not_closed_however_long_its_message_takes(
    untaken: PendingWrites, clock: ManualClock
) -> None:
    task = asyncio.create_task(untaken.run())
    steady, deaf = Reader(), Reader()
    taking = Taking()
    untaken.begin(steady, 100 * STEADY_BYTES, taking)
    untaken.begin(deaf, 600, Taking())
    for _ in range(100):
        taking.bytes += STEADY_BYTES
        await clock.advance(1.0)
    # Too much is pending all the time, and 100 s are longer than any message may take.
    assert steady.closed == []
    assert len(deaf.closed) == 1
    for _ in range(3):
        await clock.advance(1.0)
    assert len(steady.closed) == 1  # it has stopped
    assert untaken.bytes == 0
    task.cancel()


async def test_a_reader_that_takes_a_few_bytes_now_and_then_counts_as_one_that_does_not_read(
    untaken: PendingWrites, clock: ManualClock
) -> None:
    task = asyncio.create_task(untaken.run())
    trickling, taking = Reader(), Taking()
    untaken.begin(trickling, 500, taking)
    for _ in range(60):
        taking.bytes += 1
        await clock.advance(1.0)
    assert [waited_s for waited_s, _, _ in trickling.closed] == [60.0]
    task.cancel()


async def test_a_reader_of_other_messages_only_counts_as_one_that_reads_for_so_long(
    untaken: PendingWrites, clock: ManualClock
) -> None:
    """One stream of a connection is not read, and another one always."""
    task = asyncio.create_task(untaken.run())
    reader, taking = Reader(), Taking()
    untaken.begin(reader, 4 * STEADY_BYTES, taking)
    for _ in range(20):
        taking.bytes += STEADY_BYTES
        await clock.advance(1.0)
    assert len(reader.closed) == 1
    task.cancel()


async def test_while_the_process_itself_was_busy_no_reader_counts_as_slow(
    untaken: PendingWrites, clock: ManualClock
) -> None:
    """Its event loop hands readers their bytes, and looks for those that take none."""
    task = asyncio.create_task(untaken.run())
    reader, other = Reader(), Reader()
    untaken.begin(reader, 5000, Taking())
    await settle()
    clock.pass_unnoticed(70.0)
    untaken.begin(other, 5000, Taking())  # before anything else has run
    assert reader.closed == []
    await clock.advance(0.0)
    assert (reader.closed, other.closed) == ([], [])
    await clock.advance(1.0)
    assert len(reader.closed) == 1
    task.cancel()


async def test_bytes_on_their_way_to_those_that_read(
    untaken: PendingWrites, clock: ManualClock
) -> None:
    steady, deaf, unknown = Reader(), Reader(), Reader()
    taking = Taking()
    untaken.begin(steady, 100, taking)
    untaken.begin(deaf, 20, Taking())
    untaken.begin(unknown, 3, None)
    assert untaken.bytes_to_readers(within_s=0.25) == 123
    await clock.advance(0.2)
    assert untaken.bytes_to_readers(within_s=0.25) == 123
    await clock.advance(0.2)
    taking.bytes += STEADY_BYTES
    assert untaken.bytes_to_readers(within_s=0.25) == 100
    await clock.advance(0.5)
    assert untaken.bytes_to_readers(within_s=0.25) == 0
    assert untaken.bytes == 123


async def test_in_all_the_holder_of_most_gives_way_first_and_soon(clock: ManualClock) -> None:
    pending = PendingWrites(
        longest_s=None, max_bytes=1000, slow_s=5.0, large_slow_s=1.0, clock=clock
    )
    task = asyncio.create_task(pending.run())
    small, *large = [Reader() for _ in range(5)]
    pending.begin(small, 100, holder="small")
    for each in large:
        pending.begin(each, 250, holder="large")
    await clock.advance(0.5)
    assert not any(each.closed for each in (small, *large))
    await clock.advance(2.0)
    assert [len(each.closed) for each in (small, *large)] == [0, 1, 0, 0, 0]
    assert pending.bytes == 850
    assert pending.bytes_of("large") == 750
    await clock.advance(10.0)
    assert not small.closed
    task.cancel()
    await asyncio.wait([task])


async def test_a_holder_of_too_much_makes_room_for_its_own_and_no_other_is_closed(
    clock: ManualClock,
) -> None:
    pending = PendingWrites(
        longest_s=None, max_bytes=10_000, slow_s=5.0, max_holder_bytes=500, clock=clock
    )
    task = asyncio.create_task(pending.run())
    other, *of_one = [Reader() for _ in range(4)]
    pending.begin(other, 400, holder="other")
    for each in of_one:
        pending.begin(each, 200, holder="one")
    assert pending.is_held_up("one")
    assert not pending.is_held_up("other")
    await clock.advance(6.0)
    assert [len(each.closed) for each in (other, *of_one)] == [0, 1, 0, 0]
    assert not pending.is_held_up("one")
    task.cancel()
    await asyncio.wait([task])
