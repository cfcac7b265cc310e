import asyncio

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mesh_ca._turns import GATHER_S, Pace, Turns


async def test_work_is_done_in_the_order_it_came() -> None:
    turns, done = Turns(), list[int]()
    async with asyncio.TaskGroup() as group:
        for number in range(200):
            group.create_task(turns.do(lambda number=number: done.append(number)))  # type: ignore[misc]
    assert done == list(range(200))


async def test_each_caller_gets_its_own_result_or_error() -> None:
    def fail() -> None:
        raise ValueError("mine")

    turns = Turns()
    outcomes = await asyncio.gather(
        turns.do(lambda: 1), turns.do(fail), turns.do(lambda: 3), return_exceptions=True
    )
    assert [outcomes[0], outcomes[2]] == [1, 3]
    assert isinstance(outcomes[1], ValueError)
    assert str(outcomes[1]) == "mine"


async def test_work_whose_caller_has_gone_is_left_out() -> None:
    turns, done = Turns(), list[str]()
    first = asyncio.ensure_future(turns.do(lambda: done.append("first")))
    gone = asyncio.ensure_future(turns.do(lambda: done.append("gone")))
    await asyncio.sleep(0)
    gone.cancel()
    await first
    with pytest.raises(asyncio.CancelledError):
        await gone
    assert done == ["first"]


async def test_long_queue_lets_other_work_in() -> None:
    now = [0.0]
    turns, done = Turns(monotonic=lambda: now[0]), list[str]()

    def slow() -> None:
        now[0] += 0.01
        done.append("slow")

    async def other() -> None:
        for _ in range(3):
            await asyncio.sleep(0)
        done.append("other")

    async with asyncio.TaskGroup() as group:
        for _ in range(8):
            group.create_task(turns.do(slow))
        group.create_task(other())
    assert done.index("other") < len(done) - 1
    assert done.count("slow") == 8


def test_caller_on_its_own_hardly_ever_waits() -> None:
    pace, now, waits = Pace(), 0.0, list[float]()
    for _ in range(320):
        waits.append(pace.wait_s(now))
        now += 0.001
        pace.done(1, now)
    assert [wait for wait in waits if wait] == [GATHER_S] * 10


def test_gathering_goes_on_while_it_pays() -> None:
    pace, now = Pace(), 0.0
    while not pace.wait_s(now):
        pace.done(1, now)
    for _ in range(100):
        pace.done(5, now)
        now += 0.002
        assert pace.wait_s(now) == GATHER_S
    pace.done(1, now)
    assert pace.wait_s(now) == 0.0


def test_after_a_rest_the_first_is_done_at_once() -> None:
    pace = Pace()
    while not pace.wait_s(0.0):
        pace.done(1, 0.0)
    pace.done(5, 0.0)
    assert pace.wait_s(1.0) == 0.0


@given(st.lists(st.tuples(st.integers(1, 100), st.floats(0, 0.1)), max_size=200))
def test_no_one_ever_waits_longer_than_one_gathering(turns: list[tuple[int, float]]) -> None:
    pace, now = Pace(), 0.0
    for count, elapsed in turns:
        assert pace.wait_s(now) in {0.0, GATHER_S}
        now += elapsed
        pace.done(count, now)
