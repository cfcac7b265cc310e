import asyncio
import time

from hypothesis import given
from hypothesis import strategies as st

from mesh_ca.service._signing_queue import AGAIN_S, MOST, Pace, Turns


async def test_calls_go_on_in_the_order_they_came() -> None:
    turns, done = Turns(), list[int]()

    async def call(number: int) -> None:
        await turns.wait()
        done.append(number)

    async with asyncio.TaskGroup() as group:
        for number in range(200):
            group.create_task(call(number))
    assert done == list(range(200))


async def test_call_that_has_gone_holds_no_one_up() -> None:
    turns, done = Turns(), list[str]()

    async def call(name: str) -> None:
        await turns.wait()
        done.append(name)

    tasks = [asyncio.ensure_future(call(name)) for name in ("first", "gone", "last")]
    await asyncio.sleep(0)
    tasks[1].cancel()
    await asyncio.wait(tasks)
    assert done == ["first", "last"]


async def test_many_calls_let_other_work_in() -> None:
    turns, done = Turns(), list[str]()

    async def call() -> None:
        await turns.wait()
        done.append("call")

    async def other() -> None:
        for _ in range(4):
            await asyncio.sleep(0)
        done.append("other")

    async with asyncio.TaskGroup() as group:
        for _ in range(100):
            group.create_task(call())
        group.create_task(other())
    assert done.index("other") < 99
    assert done.count("call") == 100


async def test_calls_that_took_long_to_come_let_other_work_in_all_the_same() -> None:
    turns, done = Turns(), list[str]()

    async def call() -> None:
        await turns.wait()
        done.append("call")

    async def other() -> None:
        for _ in range(4):
            await asyncio.sleep(0)
        done.append("other")

    loop = asyncio.get_running_loop()
    async with asyncio.TaskGroup() as group:
        for _ in range(100):
            group.create_task(call())
        loop.call_soon(time.sleep, 5 * AGAIN_S)
        group.create_task(other())
    assert done.index("other") < 5 * MOST, "a turn of each round"
    assert done.count("call") == 100


def test_caller_on_its_own_hardly_ever_waits() -> None:
    pace, now, wanted = Pace(), 0.0, list[int]()
    for _ in range(640):
        wanted.append(pace.wanted(now)[0])
        now += 0.001
        pace.gathered(1, now)
    assert [count for count in wanted if count > 1] == [4] * 10


def test_callers_who_come_together_are_found_and_waited_for() -> None:
    pace, now, wanted = Pace(), 0.0, list[int]()
    for _ in range(400):  # eight, who come again when all have been served
        wanted.append(pace.wanted(now)[0])
        now += 0.003
        pace.gathered(min(wanted[-1], 8), now)
    assert wanted[0] == 1
    assert set(wanted[-100:]) == {8, 16}  # now and then a try for more
    assert wanted[-100:].count(8) > 90


def test_those_who_do_not_come_are_not_waited_for_again() -> None:
    pace = Pace()
    pace.gathered(8, 0.0)
    assert pace.wanted(0.0)[0] == 8
    pace.gathered(3, 0.003)
    assert pace.wanted(0.003)[0] == 3


def test_after_a_rest_the_first_is_not_held_up() -> None:
    pace = Pace()
    pace.gathered(8, 0.0)
    assert pace.wanted(1.0)[0] == 1


@given(st.lists(st.tuples(st.integers(1, 500), st.floats(0, 0.1)), max_size=200))
def test_what_is_waited_for_has_bounds(turns: list[tuple[int, float]]) -> None:
    pace, now = Pace(), 0.0
    for count, elapsed in turns:
        assert 1 <= pace.wanted(now)[0] <= MOST
        now += elapsed
        pace.gathered(count, now)


async def test_no_one_waits_for_others_for_ever() -> None:
    turns = Turns(monotonic=lambda: 0.0)
    for _ in range(200):  # tries to gather among them
        await turns.wait()
