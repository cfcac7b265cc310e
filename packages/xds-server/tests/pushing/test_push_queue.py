"""At most one pending and one in flight for each, in order, none lost."""

from __future__ import annotations

from typing import Any, TypeVar

from hypothesis import given
from hypothesis import strategies as st

from xds_server import ConfigKey, PushRequest
from xds_server.pushing._push_queue import PushQueue

K = TypeVar("K", bound=str)


def request(name: str) -> PushRequest:
    return PushRequest(configs_updated=frozenset({ConfigKey("k", name, "ns")}))


def changes(taken: Any) -> set[str]:
    return {key.name for key in taken[1].configs_updated}


def take(queue: PushQueue[K]) -> tuple[K, PushRequest]:
    key = queue.next()
    assert key is not None
    return key, queue.take(key)


def test_what_goes_in_comes_out() -> None:
    queue: PushQueue[str] = PushQueue()
    assert queue.next() is None
    queue.enqueue("a", request("1"))
    taken = take(queue)
    assert taken[0] == "a"
    assert changes(taken) == {"1"}
    assert queue.next() is None


def test_waiting_more_than_once_is_waiting_once_merged() -> None:
    queue: PushQueue[str] = PushQueue()
    for number in "123":
        queue.enqueue("a", request(number))
    assert changes(take(queue)) == {"1", "2", "3"}
    assert len(queue) == 0


def test_what_comes_during_a_push_waits_for_its_end() -> None:
    queue: PushQueue[str] = PushQueue()
    queue.enqueue("a", request("1"))
    take(queue)
    queue.enqueue("a", request("2"))
    queue.enqueue("a", request("3"))
    assert len(queue) == 0
    queue.mark_done("a")
    assert changes(take(queue)) == {"2", "3"}
    queue.mark_done("a")
    assert len(queue) == 0


def test_who_is_gone_is_not_pushed_to() -> None:
    queue: PushQueue[str] = PushQueue()
    for key in "abc":
        queue.enqueue(key, request("1"))
    queue.discard("a")
    taken = take(queue)
    assert taken[0] == "b"
    queue.enqueue("b", request("2"))
    queue.discard("b")
    queue.mark_done("b")
    assert len(queue) == 1


@given(st.lists(st.tuples(st.sampled_from("ade"), st.sampled_from("xyz"), st.integers(0, 99))))
def test_every_change_reaches_everyone_it_was_for(steps: list[tuple[str, str, int]]) -> None:
    """Random adding, taking and finishing, against a plain book of what was pushed to whom."""
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
            taken = take(queue)
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
