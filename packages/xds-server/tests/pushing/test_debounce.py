"""Many changes become one push; the rule alone, and the rule at work."""

from __future__ import annotations

import asyncio

from hypothesis import given
from hypothesis import strategies as st

from mesh_lifecycle.testing import ManualClock
from xds_server import ConfigKey, PushRequest
from xds_server.pushing._debounce import Debounce, Debouncer, Gathered


def request(name: str) -> PushRequest:
    return PushRequest(configs_updated=frozenset({ConfigKey("k", name, "ns")}))


def test_due_when_it_has_been_quiet() -> None:
    rule = Debounce(quiet_s=0.1, maximum_s=10)
    assert rule.due_in(0) is None
    rule.add(request("a"), now=0)
    rule.add(request("b"), now=0.0625)
    assert rule.due_in(0.0625) == 0.1
    assert rule.due_in(0.2) == 0
    gathered = rule.pop()
    assert gathered is not None
    assert (gathered.changes, gathered.first_at) == (2, 0)
    assert {key.name for key in gathered.request.configs_updated} == {"a", "b"}
    assert rule.due_in(1) is None


@given(st.lists(st.floats(0.001, 0.09), min_size=1, max_size=300))
def test_never_later_than_the_maximum(gaps: list[float]) -> None:
    """However changes come, what was notified first is due within the maximum."""
    rule = Debounce(quiet_s=0.1, maximum_s=2)
    now = 0.0
    first = now
    for gap in gaps:
        rule.add(PushRequest(), now=now)
        now += gap
        due_in = rule.due_in(now)
        assert due_in is not None
        assert now + due_in <= max(first + 2, now)
        if due_in == 0:
            assert rule.pop() is not None
            first = now


async def test_a_burst_becomes_one_push(clock: ManualClock) -> None:
    pushed: list[Gathered] = []
    debouncer = Debouncer(Debounce(quiet_s=0.1, maximum_s=10), clock=clock)
    task = asyncio.create_task(debouncer.run(pushed.append))
    for number in range(5):
        debouncer.add(request(str(number)))
        await clock.advance(0.05)
    assert pushed == []
    await clock.advance(0.1)
    await clock.advance(0.1)
    assert [gathered.changes for gathered in pushed] == [5]
    task.cancel()


async def test_changes_without_end_are_pushed_at_the_maximum(clock: ManualClock) -> None:
    pushed: list[Gathered] = []
    debouncer = Debouncer(Debounce(quiet_s=0.1, maximum_s=1), clock=clock)
    task = asyncio.create_task(debouncer.run(pushed.append))
    for _ in range(45):
        debouncer.add(PushRequest())
        await clock.advance(0.05)
    assert len(pushed) == 2
    assert sum(gathered.changes for gathered in pushed) >= 40
    task.cancel()


async def test_what_comes_during_a_push_goes_into_the_next(clock: ManualClock) -> None:
    pushed: list[int] = []
    debouncer = Debouncer(Debounce(quiet_s=0.1, maximum_s=1), clock=clock)

    def push(gathered: Gathered) -> None:
        if not pushed:
            debouncer.add(PushRequest())
            debouncer.add(PushRequest())
        pushed.append(gathered.changes)

    task = asyncio.create_task(debouncer.run(push))
    debouncer.add(PushRequest())
    for _ in range(4):
        await clock.advance(0.1)
    assert pushed == [1, 2]
    task.cancel()


def test_the_quiet_time_counts_from_the_change_and_not_from_when_it_was_reported() -> None:
    rule = Debounce(quiet_s=0.25, maximum_s=10)
    rule.add(request("a"), now=1, quiet_since=0.875)
    assert rule.due_in(1) == 0.125
    rule.add(request("b"), now=1, quiet_since=0.5)
    assert rule.due_in(1) == 0.125  # what came later counts
    rule.add(request("c"), now=1.0625, quiet_since=2)
    assert rule.due_in(1.0625) == 0.25  # never later than now
    gathered = rule.pop()
    assert gathered is not None
    assert (gathered.changes, gathered.first_at) == (3, 1)
