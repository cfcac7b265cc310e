"""Clients that are written to at once; those that do not read keep no other from it."""

from __future__ import annotations

import asyncio

from xds_server.pushing._push_throttle import PushThrottle

NUMBER = 4


async def test_no_more_than_so_many_are_handed_out_while_they_come_back() -> None:
    slots = PushThrottle(NUMBER, patience_s=3600)
    client_has = [await slots.acquire() for _ in range(NUMBER)]
    waiting = asyncio.create_task(slots.acquire())
    for _ in range(5):
        await asyncio.sleep(0)
    assert not waiting.done()
    client_has.pop().release()
    client_has.append(await waiting)
    for permit in client_has:
        permit.release()
        permit.release()  # given back once, however often


async def test_when_no_client_gives_one_back_ever_more_are_handed_out() -> None:
    """A thousand who do not read cost a few waits, not one each."""
    slots = PushThrottle(NUMBER, patience_s=0.0)
    loop = asyncio.get_running_loop()
    waits = 0
    call_at = loop.call_at

    def counting(*args: object, **options: object) -> asyncio.TimerHandle:
        nonlocal waits
        waits += 1
        return call_at(*args, **options)  # type: ignore[arg-type]

    loop.call_at = counting  # type: ignore[method-assign]
    client_has = [await slots.acquire() for _ in range(1000)]
    assert waits < 30
    for permit in client_has:
        permit.release()
    assert slots._allowed == NUMBER


async def test_once_somebody_reads_no_more_than_so_many_are_handed_out_again() -> None:
    """A pause of all clients does not put the rest of the push into memory at once."""
    slots = PushThrottle(NUMBER, patience_s=0.0)
    client_has = [await slots.acquire() for _ in range(3 * NUMBER)]
    slots._patience_s = 3600
    client_has.pop().release()
    client_has.append(await slots.acquire())
    waiting = asyncio.create_task(slots.acquire())
    for _ in range(5):
        await asyncio.sleep(0)
    assert not waiting.done()
    client_has.pop().release()
    client_has.append(await waiting)
    for permit in client_has:
        permit.release()


async def test_readers_beside_those_who_keep_their_slots_have_all_of_the_number() -> None:
    """A client that was passed over once takes no place from those who read."""
    slots = PushThrottle(NUMBER, patience_s=0.0)
    kept = [await slots.acquire() for _ in range(NUMBER)]
    (await slots.acquire()).release()
    slots._patience_s = 3600
    readers = [await slots.acquire() for _ in range(NUMBER)]
    for permit in (*readers, *kept):
        permit.release()


async def test_a_slot_comes_back_after_its_time() -> None:
    slots = PushThrottle(1, patience_s=3600)
    (await slots.acquire()).release_after(0.001)
    (await slots.acquire()).release()


async def test_who_is_not_written_to_takes_no_slot() -> None:
    slots = PushThrottle(1, patience_s=3600)
    slots.unlimited().release_after(0.0)
    (await slots.acquire()).release()


async def test_a_loop_that_is_always_late_holds_up_no_other_for_ever() -> None:
    slots = PushThrottle(1, patience_s=1e-9)  # by which every loop is late
    client_has = [await slots.acquire() for _ in range(10)]
    for permit in client_has:
        permit.release()
