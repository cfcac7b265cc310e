"""Clients that are written to at once; those that do not read keep no other from it."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

import pytest

from mesh_testkit import PATIENCE_S
from xds_server.pushing._push_throttle import PushPermit, PushThrottle

NUMBER = 4


class Slots:
    """A throttle, and a way to wait for a permit."""

    def __init__(
        self, number: int, *, patience_s: float = 3600.0, longest_s: float = 3600.0
    ) -> None:
        self._room = asyncio.Event()
        self.throttle = PushThrottle(
            number, longest_s=longest_s, room=self._room.set, patience_s=patience_s
        )

    def take(self) -> PushPermit | None:
        return self.throttle.take()

    async def acquire(self) -> PushPermit:
        while (permit := self.take()) is None:
            async with asyncio.timeout(PATIENCE_S):
                await self._room.wait()
            self._room.clear()
        return permit


@pytest.fixture
def all_slots() -> Iterator[list[Slots]]:
    created: list[Slots] = []
    yield created
    for slots in created:
        slots.throttle.close()


async def test_no_more_than_so_many_are_handed_out_while_they_come_back(
    all_slots: list[Slots],
) -> None:
    all_slots.append(slots := Slots(NUMBER))
    held = [await slots.acquire() for _ in range(NUMBER)]
    assert slots.take() is None
    held.pop().release()
    held.append(await slots.acquire())
    assert slots.take() is None
    for permit in held:
        permit.release()
        permit.release()  # given back once, however often
    held = [await slots.acquire() for _ in range(NUMBER)]
    assert slots.take() is None


async def test_when_no_client_gives_one_back_ever_more_are_handed_out(
    all_slots: list[Slots],
) -> None:
    """A thousand who do not read cost a few waits, not one each."""
    all_slots.append(slots := Slots(NUMBER, patience_s=0.0))
    loop = asyncio.get_running_loop()
    waits = 0
    call_at = loop.call_at

    def counting(*args: object, **options: object) -> asyncio.TimerHandle:
        nonlocal waits
        waits += 1
        return call_at(*args, **options)  # type: ignore[arg-type]

    loop.call_at = counting  # type: ignore[method-assign]
    held = [await slots.acquire() for _ in range(1000)]
    assert waits < 60  # half of them are those of the test itself
    for permit in held:
        permit.release()
    assert slots.throttle._allowed == NUMBER


async def test_once_somebody_reads_no_more_than_so_many_are_handed_out_again(
    all_slots: list[Slots],
) -> None:
    """A pause of all clients does not put the rest of the push into memory at once."""
    all_slots.append(slots := Slots(NUMBER, patience_s=0.0))
    held = [await slots.acquire() for _ in range(3 * NUMBER)]
    slots.throttle._patience_s = 3600
    held.pop().release()
    held.append(await slots.acquire())
    assert slots.take() is None
    held.pop().release()
    held.append(await slots.acquire())
    assert slots.take() is None


async def test_readers_beside_those_who_keep_their_slots_have_all_of_the_number(
    all_slots: list[Slots],
) -> None:
    """A client that was passed over once takes no place from those who read."""
    all_slots.append(slots := Slots(NUMBER, patience_s=0.0))
    kept = [await slots.acquire() for _ in range(NUMBER)]
    (await slots.acquire()).release()
    slots.throttle._patience_s = 3600
    readers = [await slots.acquire() for _ in range(NUMBER)]
    for permit in (*readers, *kept):
        permit.release()


async def test_a_slot_comes_back_after_its_time(all_slots: list[Slots]) -> None:
    all_slots.append(slots := Slots(1, longest_s=0.001))
    for _ in range(5):
        await slots.acquire()


async def test_a_slot_that_was_given_back_does_not_come_back_again(
    all_slots: list[Slots],
) -> None:
    all_slots.append(slots := Slots(1, longest_s=0.001))
    (await slots.acquire()).release()
    held = [await slots.acquire() for _ in range(3)]
    for permit in held:
        permit.release()
    await slots.acquire()
    slots.throttle._longest_s = 3600
    await slots.acquire()
    assert slots.take() is None


async def test_who_is_not_written_to_takes_no_slot(all_slots: list[Slots]) -> None:
    all_slots.append(slots := Slots(1))
    PushThrottle.unlimited_permit().release()
    (await slots.acquire()).release()


async def test_a_loop_that_is_always_late_holds_up_no_other_for_ever(
    all_slots: list[Slots],
) -> None:
    all_slots.append(slots := Slots(1, patience_s=1e-9))  # by which every loop is late
    for _ in range(10):
        await slots.acquire()
