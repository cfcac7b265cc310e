"""At most one pending and one in flight for each, in order, none lost."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from xds_server import ConfigKey, PushRequest
from xds_server.pushing._push_queue import PushQueue

Settle = Callable[[], Awaitable[None]]


def request(name: str) -> PushRequest:
    return PushRequest(configs_updated=frozenset({ConfigKey("k", name, "ns")}))


def changes(taken: Any) -> set[str]:
    return {key.name for key in taken[1].configs_updated}


async def test_what_goes_in_comes_out_and_an_empty_queue_waits(settle: Settle) -> None:
    queue: PushQueue[str] = PushQueue()
    waiter = asyncio.create_task(queue.dequeue())
    await settle()
    assert not waiter.done()
    queue.enqueue("a", request("1"))
    taken = await waiter
    assert taken is not None
    assert taken[0] == "a"
    assert changes(taken) == {"1"}


async def test_waiting_more_than_once_is_waiting_once_merged() -> None:
    queue: PushQueue[str] = PushQueue()
    for number in "123":
        queue.enqueue("a", request(number))
    assert changes(await queue.dequeue()) == {"1", "2", "3"}
    assert len(queue) == 0


async def test_what_comes_during_a_push_waits_for_its_end() -> None:
    queue: PushQueue[str] = PushQueue()
    queue.enqueue("a", request("1"))
    await queue.dequeue()
    queue.enqueue("a", request("2"))
    queue.enqueue("a", request("3"))
    assert len(queue) == 0
    queue.mark_done("a")
    assert changes(await queue.dequeue()) == {"2", "3"}
    queue.mark_done("a")
    assert len(queue) == 0


async def test_of_two_takers_one_addition_wakes_one(settle: Settle) -> None:
    queue: PushQueue[str] = PushQueue()
    takers = [asyncio.create_task(queue.dequeue()) for _ in range(2)]
    await settle()
    queue.enqueue("a", request("1"))
    await settle()
    assert [waiter.done() for waiter in takers] == [True, False]
    takers[1].cancel()
    await asyncio.wait(takers)


async def test_a_cancelled_taker_loses_nothing(settle: Settle) -> None:
    queue: PushQueue[str] = PushQueue()
    first, second = [asyncio.create_task(queue.dequeue()) for _ in range(2)]
    await settle()
    queue.enqueue("a", request("1"))
    first.cancel()
    await settle()
    assert second.done()
    with pytest.raises(asyncio.CancelledError):
        await first


async def test_shut_down_drains_and_takes_no_more(settle: Settle) -> None:
    queue: PushQueue[str] = PushQueue()
    queue.enqueue("a", request("1"))
    queue.shut_down()
    queue.enqueue("b", request("2"))
    assert await queue.dequeue() is not None
    waiter = asyncio.create_task(queue.dequeue())
    await settle()
    assert waiter.done()
    assert await waiter is None


async def test_who_is_gone_is_not_pushed_to() -> None:
    queue: PushQueue[str] = PushQueue()
    for key in "abc":
        queue.enqueue(key, request("1"))
    queue.discard("a")
    taken = await queue.dequeue()
    assert taken is not None
    assert taken[0] == "b"
    queue.enqueue("b", request("2"))
    queue.discard("b")
    queue.mark_done("b")
    assert len(queue) == 1


async def test_a_hundred_adders_and_takers_miss_none() -> None:
    queue: PushQueue[int] = PushQueue()
    seen: Counter[int] = Counter()
    busy: set[int] = set()

    async def add(key: int) -> None:
        for number in range(10):
            queue.enqueue(key, request(str(number)))
            await asyncio.sleep(0)

    async def take() -> None:
        while (taken := await queue.dequeue()) is not None:
            key = taken[0]
            assert key not in busy, "pushed to twice at once"
            busy.add(key)
            await asyncio.sleep(0)
            seen[key] += 1
            busy.remove(key)
            queue.mark_done(key)

    takers = [asyncio.create_task(take()) for _ in range(100)]
    await asyncio.gather(*(add(key) for key in range(100)))
    queue.shut_down()
    await asyncio.gather(*takers)
    assert set(seen) == set(range(100))


@given(st.lists(st.tuples(st.sampled_from("ade"), st.sampled_from("xyz"), st.integers(0, 99))))
def test_every_change_reaches_everyone_it_was_for(steps: list[tuple[str, str, int]]) -> None:
    """Random adding, taking and finishing, against a plain book of what was told to whom."""

    async def run() -> None:
        queue: PushQueue[str] = PushQueue()
        owed: dict[str, set[str]] = {key: set() for key in "xyz"}
        flying: dict[str, set[str]] = {}
        order: list[str] = []
        for step, key, number in steps:
            if step == "a":
                if not owed[key] and key not in flying:
                    order.append(key)
                owed[key].add(str(number))
                queue.enqueue(key, request(str(number)))
            elif step == "d" and queue:
                taken = await queue.dequeue()
                assert taken is not None
                assert taken[0] == order.pop(0)
                assert changes(taken) == owed[taken[0]]
                assert taken[0] not in flying
                flying[taken[0]] = owed[taken[0]]
                owed[taken[0]] = set()
            elif step == "e" and key in flying:
                del flying[key]
                queue.mark_done(key)
                if owed[key]:
                    order.append(key)
        assert len(queue) == len(order)

    asyncio.run(run())
