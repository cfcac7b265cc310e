"""What a stream costs grows with what it watches, and no faster; streams that are alike share it.

Counted is the work itself, a step of the interpreter each, so that no clock has a say.
"""

from __future__ import annotations

import gc
import sys
import threading
from collections.abc import Callable
from functools import partial
from types import CodeType, FrameType
from typing import Any

import pytest

from xds_server import (
    Client,
    Generated,
    LinearStore,
    Node,
    PushRequest,
    Resource,
    Snapshot,
    SnapshotStore,
)
from xds_server import type_urls as types
from xds_server.protocol._request import DeltaRequest, SotwRequest
from xds_server.subscriptions._delta import DeltaState
from xds_server.subscriptions._sotw import SotwState
from xds_server.subscriptions._subscription import Query

EDS = types.ENDPOINT
CLIENT: Client[None] = Client(id="n-1", node=Node(id="n"), identities=(), context=None)


def endpoints(number: int, *, version: str = "1") -> Resource:
    return Resource(name=f"e{number}", type_url=EDS, body=b"x", version=version)


class Snapshots:
    """A store of one snapshot, changed as a whole."""

    def __init__(self, size: int) -> None:
        self.store: SnapshotStore[None] = SnapshotStore()
        self._version = 1
        self._resources = [endpoints(n) for n in range(size)]
        self.store.set("n", Snapshot.build(self._resources))

    def change(self) -> PushRequest:
        self._version += 1
        self._resources[0] = endpoints(0, version=str(self._version))
        return self.store.set("n", Snapshot.build(self._resources))


class Linear:
    """A store of which single resources change."""

    def __init__(self, size: int) -> None:
        self.store = LinearStore(EDS, [endpoints(n) for n in range(size)])
        self._version = 1

    def change(self) -> PushRequest:
        self._version += 1
        return self.store.update(endpoints(0, version=str(self._version)))


def steps_of(work: Callable[[], object]) -> int:
    """How many instructions the interpreter runs for it, in this thread."""
    collecting = gc.isenabled()
    gc.disable()  # What others left is not part of the work.
    try:
        return _monitored(work) if sys.version_info >= (3, 12) else _traced(work)
    finally:
        if collecting:
            gc.enable()


def _monitored(work: Callable[[], object]) -> int:
    count = 0
    if sys.version_info >= (3, 12):
        monitoring, own = sys.monitoring, threading.get_ident()
        tool, instructions = monitoring.PROFILER_ID, monitoring.events.INSTRUCTION

        def step(_code: CodeType, _offset: int) -> None:
            nonlocal count
            count += threading.get_ident() == own

        monitoring.use_tool_id(tool, "steps")
        monitoring.register_callback(tool, instructions, step)
        monitoring.set_events(tool, instructions)
        try:
            work()
        finally:
            monitoring.set_events(tool, 0)
            monitoring.register_callback(tool, instructions, None)
            monitoring.free_tool_id(tool)
    return count


def _traced(work: Callable[[], object]) -> int:
    """What 3.11 has instead; later, it misses steps of the functions that are called first."""
    count = 0

    def step(frame: FrameType, event: str, _argument: object) -> Any:
        nonlocal count
        frame.f_trace_opcodes, frame.f_trace_lines = True, False
        count += event == "opcode"
        return step

    before = sys.gettrace()
    sys.settrace(step)
    try:
        work()
    finally:
        sys.settrace(before)
    return count


class Stream:
    """One client that asks for the first half of what there is."""

    def __init__(self, store: Any, size: int, *, delta: bool) -> None:
        kind: Any = DeltaState if delta else SotwState
        self._store = store
        self._state: Any = kind(
            nonce_prefix="n",
            order_wait_s=5.0,
            hold_until_ack_s=None,
            drain_time_s=0.0,
            now=lambda: 0.0,
            version=lambda: "v",
        )
        names = frozenset(f"e{n}" for n in range(size // 2))
        self._request: Any = (
            DeltaRequest(type_url=EDS, subscribe=names)
            if delta
            else SotwRequest(type_url=EDS, names=names)
        )

    def first(self) -> None:
        received = self._state.receive(self._request)
        (response,) = self._state.answers(received.queries, partial(self._source, push=None))
        assert response.resources

    def push(self, request: PushRequest) -> None:
        (response,) = self._state.push(partial(self._source, push=request))
        assert len(response.resources) == 1

    def _source(self, query: Query, *, push: PushRequest | None) -> Generated | None:
        generated: Generated | None = self._store.generate(
            CLIENT, query.watch, None if query.requested else push
        )
        return generated


def cost(kind: Any, size: int, *, delta: bool) -> tuple[int, int]:
    """What the first answer and a push cost the only client."""
    stores = kind(size)
    stream = Stream(stores.store, size, delta=delta)
    first = steps_of(stream.first)
    request = stores.change()
    return first, steps_of(lambda: stream.push(request))


@pytest.mark.parametrize("kind", [Snapshots, Linear])
@pytest.mark.parametrize("delta", [False, True])
def test_what_part_of_a_store_costs_grows_with_that_part_and_no_faster(
    kind: Any, *, delta: bool
) -> None:
    small, large = cost(kind, 500, delta=delta), cost(kind, 4000, delta=delta)
    for what, before, after in zip(("first answer", "push"), small, large, strict=True):
        assert after < 8 * 1.5 * before, what


@pytest.mark.parametrize("kind", [Snapshots, Linear])
def test_one_change_is_worked_out_once_for_all_delta_clients_that_are_alike(kind: Any) -> None:
    """The tenth client pays for its nonce, however much it watches."""
    costs = {}
    for size in (500, 4000):
        stores = kind(size)
        streams = [Stream(stores.store, size, delta=True) for _ in range(10)]
        for stream in streams:
            stream.first()
        for _ in range(2):  # and after the change they still share what they have
            request = stores.change()
            costs[size] = [steps_of(partial(stream.push, request)) for stream in streams]
            assert costs[size][-1] < costs[size][0]
    assert costs[4000][1:] == costs[500][1:]
