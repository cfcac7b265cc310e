"""Pushes are handed to clients in their order, merged while they wait, as permits allow."""

from __future__ import annotations

import asyncio
import random
from collections import defaultdict
from collections.abc import Awaitable, Callable

from mesh_testkit import until
from xds_server import ConfigKey, PushRequest
from xds_server.pushing._push_dispatch import PushDispatch
from xds_server.pushing._push_throttle import PushPermit

Settle = Callable[[], Awaitable[None]]


def request(name: str) -> PushRequest:
    return PushRequest(configs_updated=frozenset({ConfigKey("k", name, "ns")}))


class Started:
    """What was handed out, to clients of which some read slowly."""

    def __init__(self, *, concurrent: int, slow: frozenset[str] = frozenset()) -> None:
        self.pushes: dict[str, PushPermit] = {}
        self.changes: list[tuple[str, set[str]]] = []
        self.dispatch: PushDispatch[str] = PushDispatch(
            self._start, reads_slowly=slow.__contains__, concurrent=concurrent, longest_s=3600
        )

    def _start(self, key: str, push: PushRequest, permit: PushPermit) -> None:
        assert key not in self.pushes, "pushed to twice at once"
        self.pushes[key] = permit
        self.changes.append((key, {each.name for each in push.configs_updated}))

    def finish(self, key: str) -> None:
        self.pushes.pop(key).release()
        self.dispatch.mark_done(key)


async def test_changes_right_after_each_other_are_one_push(settle: Settle) -> None:
    started = Started(concurrent=4)
    with started.dispatch.running():
        started.dispatch.enqueue("a", request("1"))
        started.dispatch.enqueue("a", request("2"))
        assert not started.pushes, "begun inside of the call"
        await settle()
        assert started.changes == [("a", {"1", "2"})]
        started.dispatch.enqueue("a", request("3"))
        await settle()
        assert len(started.changes) == 1
        started.finish("a")
        await settle()
        assert started.changes[1:] == [("a", {"3"})]


async def test_no_more_than_so_many_are_under_way_and_all_come_to_their_turn(
    settle: Settle,
) -> None:
    started = Started(concurrent=2)
    with started.dispatch.running():
        for key in "abcde":
            started.dispatch.enqueue(key, request("1"))
        await settle()
        assert list(started.pushes) == ["a", "b"]
        started.finish("b")
        await settle()
        assert list(started.pushes) == ["a", "c"]
        assert len(started.dispatch) == 2
        started.dispatch.discard("d")
        started.finish("a")
        await settle()
        assert list(started.pushes) == ["c", "e"]
        assert len(started.dispatch) == 0


async def test_a_client_that_reads_slowly_needs_no_permit(settle: Settle) -> None:
    started = Started(concurrent=1, slow=frozenset("bc"))
    with started.dispatch.running():
        for key in "abcd":
            started.dispatch.enqueue(key, request("1"))
        await settle()
        assert list(started.pushes) == ["a", "b", "c"]
        started.finish("b")
        await settle()
        assert "d" not in started.pushes
        started.finish("a")
        await settle()
        assert list(started.pushes) == ["c", "d"]


async def test_when_it_has_ended_nothing_is_begun(settle: Settle) -> None:
    started = Started(concurrent=1)
    with started.dispatch.running():
        started.dispatch.enqueue("a", request("1"))
    await settle()
    assert not started.pushes
    with started.dispatch.running():
        await settle()
        assert list(started.pushes) == ["a"]


async def test_a_hundred_clients_miss_no_change() -> None:
    started = Started(concurrent=7)
    chance = random.Random(1)
    owed: defaultdict[str, set[str]] = defaultdict(set)
    with started.dispatch.running():
        for number in range(20):
            for client in range(100):
                if chance.random() < 0.5:
                    owed[str(client)].add(str(number))
                    started.dispatch.enqueue(str(client), request(str(number)))
            await asyncio.sleep(0)
            for key in list(started.pushes):
                if chance.random() < 0.5:
                    started.finish(key)

        def all_ended() -> bool:
            for key in list(started.pushes):
                started.finish(key)
            return not started.pushes and not len(started.dispatch)

        await until(all_ended, what="every push to have ended")
    got: defaultdict[str, set[str]] = defaultdict(set)
    for key, changes in started.changes:
        got[key] |= changes
    assert got == owed
