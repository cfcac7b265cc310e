import asyncio

from mesh_lifecycle import Clock, SystemClock
from mesh_lifecycle.testing import ManualClock


async def test_sleepers_wake_in_order_at_their_own_times() -> None:
    clock = ManualClock()
    start = clock.now()
    woken: list[tuple[str, float]] = []

    async def sleeper(name: str, seconds: float) -> None:
        await clock.sleep(seconds)
        woken.append((name, clock.now() - start))

    async with asyncio.TaskGroup() as group:
        group.create_task(sleeper("late", 20))
        group.create_task(sleeper("early", 5))
        await clock.settle()
        waits = list(clock.sleeping)
        await clock.advance(10)
        woken_by_then = list(woken)
        await clock.advance(10)
    assert waits == [5, 20]
    assert woken_by_then == [("early", 5)]
    assert woken == [("early", 5), ("late", 20)]


async def test_a_loop_that_sleeps_again_is_woken_as_often_as_time_allows() -> None:
    clock = ManualClock()
    ticks = 0

    async def tick() -> None:
        nonlocal ticks
        while True:
            await clock.sleep(1)
            ticks += 1

    task = asyncio.create_task(tick())
    await clock.advance(10)
    task.cancel()
    await asyncio.wait([task])
    assert ticks == 10


async def test_jump_moves_the_wall_clock_and_wakes_no_sleeper() -> None:
    clock = ManualClock()
    wall, steady = clock.now(), clock.monotonic()
    clock.jump(-3600)
    assert (clock.now() - wall, clock.monotonic() - steady) == (-3600, 0)


async def test_system_clock_is_a_clock_and_takes_zero_and_less() -> None:
    clock: Clock = SystemClock()
    before = clock.monotonic()
    await clock.sleep(0)
    await clock.sleep(-1)
    assert clock.monotonic() >= before
    assert clock.now() > 1_700_000_000
