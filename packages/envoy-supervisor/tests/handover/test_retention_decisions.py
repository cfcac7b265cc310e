"""When listening sockets are retained, handed over and released: by event and by property."""

from __future__ import annotations

from typing import assert_never

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from envoy_supervisor.handover import _retention_state as retention
from envoy_supervisor.handover._retention_decisions import (
    CHECK_INTERVAL_S,
    SETTLE_S,
    decide,
)
from envoy_supervisor.handover._retention_state import (
    Check,
    CheckLater,
    ChildServes,
    Close,
    CloseNotPassed,
    EndWaitLater,
    EnvoyDied,
    EnvoyReady,
    EnvoyStarts,
    Fetched,
    FetchFailed,
    FetchSockets,
    HandOver,
    KeepThoseOf,
    LetConnectionsWait,
    ListenersChanged,
    ListenersChanging,
    NotShared,
    Orphaned,
    Release,
    RetentionState,
    Serving,
    Shared,
    StartKind,
    WaitOver,
)

FIRST = Serving(pid=1, retainable=True)
SECOND = Serving(pid=2, retainable=True)


class Run:
    """A state, and the events that led to it."""

    def __init__(self, *events: retention.Event) -> None:
        self.now = 0.0
        self.state = RetentionState()
        for event in events:
            self.tell(event)

    def tell(self, event: retention.Event) -> tuple[retention.Action, ...]:
        self.state, actions = decide(self.state, event, now=self.now)
        return actions


def shared() -> Run:
    """Set 0 is shared with the first Envoy."""
    return Run(EnvoyReady(FIRST), Fetched(0, 2))


def test_the_sockets_of_a_ready_envoy_are_fetched_and_checked_from_then_on() -> None:
    run = Run()
    assert run.tell(EnvoyReady(FIRST)) == (FetchSockets(0, 1, 0.0),)
    assert run.tell(Fetched(0, 2)) == (CheckLater(1),)
    assert run.state.retained == Shared(sockets=0, pid=1, check=1)
    assert run.tell(retention.CheckDue(1)) == (Check(0), CheckLater(1))


def test_an_envoy_that_cannot_be_asked_is_asked_again_while_it_serves() -> None:
    run = Run(EnvoyReady(FIRST))
    assert run.tell(FetchFailed(0, FIRST)) == (FetchSockets(0, 1, CHECK_INTERVAL_S),)
    assert run.tell(FetchFailed(0, None)) == ()
    assert run.state.fetch is None


def test_sockets_that_envoy_has_closed_are_released_and_fetched_anew() -> None:
    assert shared().tell(NotShared(0, FIRST)) == (Close(0), FetchSockets(2, 1, 0.0))
    assert shared().tell(NotShared(0, None)) == (Close(0),)


def test_connections_wait_for_the_next_envoy_which_gets_the_sockets_it_asked_for() -> None:
    run = shared()
    assert run.tell(EnvoyDied(1)) == (LetConnectionsWait(0), EndWaitLater(0))
    assert run.tell(EnvoyStarts(StartKind.FROM_DEAD_PARENT)) == ()
    assert run.tell(ChildServes(2)) == (HandOver(0, 2), CheckLater(2))
    assert run.state.retained == Shared(sockets=0, pid=2, check=2)
    assert run.tell(EnvoyReady(SECOND)) == (FetchSockets(3, 2, 0.0),)
    assert run.tell(Fetched(3, 2)) == (Close(0), CheckLater(4))


def test_sockets_that_no_child_asks_for_are_closed_after_a_while() -> None:
    run = shared()
    run.tell(EnvoyDied(1))
    assert run.tell(WaitOver(0)) == (CloseNotPassed(0),)
    run.tell(ChildServes(2))
    assert run.tell(WaitOver(0)) == ()


def test_a_child_that_dies_before_it_serves_leaves_the_sockets_to_the_next() -> None:
    run = shared()
    run.tell(EnvoyDied(1))
    assert run.tell(EnvoyDied(2)) == (LetConnectionsWait(0),)
    assert run.state.retained == Orphaned(sockets=0)


def test_an_envoy_that_binds_its_sockets_itself_finds_none_retained() -> None:
    run = shared()
    run.tell(EnvoyDied(1))
    assert run.tell(EnvoyStarts(StartKind.BINDS)) == (Close(0),)


def test_before_a_hot_restart_the_sockets_are_checked_or_released() -> None:
    assert shared().tell(EnvoyStarts(StartKind.FROM_PARENT)) == (Check(0),)
    assert shared().tell(EnvoyStarts(StartKind.FROM_PARENT_OF_OTHER_SIZE)) == (Close(0),)


def test_after_a_hot_restart_the_childs_sockets_stay_until_they_are_fetched_anew() -> None:
    run = shared()
    run.tell(EnvoyStarts(StartKind.FROM_PARENT))
    assert run.tell(EnvoyReady(SECOND)) == (KeepThoseOf(0, 2), FetchSockets(2, 2, 0.0))
    assert run.tell(Fetched(2, 0)) == (Close(0), Close(2))


def test_while_listeners_change_a_running_envoys_sockets_are_released() -> None:
    run = shared()
    assert run.tell(ListenersChanging()) == (Close(0),)
    assert run.tell(EnvoyReady(SECOND)) == ()
    run.now = 1.0
    assert run.tell(ListenersChanged(SECOND)) == (FetchSockets(2, 2, 0.0),)
    run.now += SETTLE_S / 2
    assert run.tell(ListenersChanged(SECOND)) == (FetchSockets(3, 2, SETTLE_S),)
    # The answer to the first question came too late.
    assert run.tell(Fetched(2, 5)) == (Close(2),)


def test_while_listeners_change_a_dead_envoys_sockets_wait_until_the_next_serves() -> None:
    run = shared()
    run.tell(EnvoyDied(1))
    assert run.tell(ListenersChanging()) == ()
    assert run.tell(ChildServes(2)) == (HandOver(0, 2), Close(0))


def test_after_the_end_no_socket_is_retained_any_more() -> None:
    run = shared()
    assert run.tell(Release(for_good=True)) == (Close(0),)
    assert run.tell(EnvoyReady(SECOND)) == ()


class AnyHistory(RuleBasedStateMachine):
    """Whatever happens, in whatever order: no set is lost, none is given to two Envoys.

    Plays the caller: it has the sets that are open, and knows which Envoys live.
    """

    def __init__(self) -> None:
        super().__init__()
        self.state = RetentionState()
        self.now = 0.0
        self.fetches: dict[int, int] = {}
        self.open: dict[int, set[int]] = {}
        self.orphaned: set[int] = set()
        self.alive: int | None = None
        self.pids = 0
        self.changing = False
        self.closed = False

    def tell(self, event: retention.Event) -> None:
        self.state, actions = decide(self.state, event, now=self.now)
        for action in actions:
            match action:
                case FetchSockets(number, pid, _):
                    assert pid == self.alive
                    assert not self.changing
                    assert not self.closed
                    assert number not in self.open
                    self.fetches[number] = pid
                case HandOver(sockets, pid):
                    assert sockets in self.orphaned
                    assert pid == self.alive
                    self.orphaned.discard(sockets)
                    self.open[sockets] = {pid}
                case KeepThoseOf(sockets, pid):
                    assert sockets not in self.orphaned
                    self.open[sockets] = {pid}
                case LetConnectionsWait(sockets):
                    assert self.alive is None
                    self.orphaned.add(sockets)
                case CloseNotPassed(sockets) | EndWaitLater(sockets):
                    assert sockets in self.orphaned
                case Check(sockets):
                    assert sockets in self.open
                    assert sockets not in self.orphaned
                case Close(sockets):
                    del self.open[sockets]
                    self.orphaned.discard(sockets)
                case CheckLater():
                    pass
                case _:
                    assert_never(action)

    @property
    def serving(self) -> Serving | None:
        return None if self.alive is None else Serving(pid=self.alive, retainable=True)

    def start(self, kind: StartKind) -> None:
        self.tell(EnvoyStarts(kind))
        if kind in (StartKind.BINDS, StartKind.FROM_PARENT_OF_OTHER_SIZE):
            assert not self.open
        self.pids += 1
        self.alive = self.pids
        if kind is StartKind.FROM_DEAD_PARENT:
            self.tell(ChildServes(self.alive))
            self.check_owner()
        self.tell(EnvoyReady(Serving(pid=self.alive, retainable=True)))

    @precondition(lambda self: self.alive is None)
    @rule(kind=st.sampled_from([StartKind.BINDS, StartKind.FROM_DEAD_PARENT]))
    def an_envoy_starts_and_gets_ready(self, kind: StartKind) -> None:
        self.start(kind)

    @precondition(lambda self: self.alive is not None)
    @rule(kind=st.sampled_from([StartKind.FROM_PARENT, StartKind.FROM_PARENT_OF_OTHER_SIZE]))
    def a_hot_restart(self, kind: StartKind) -> None:
        self.start(kind)

    @precondition(lambda self: self.alive is not None)
    @rule()
    def the_envoy_dies(self) -> None:
        pid, self.alive = self.alive, None
        assert pid is not None
        self.tell(EnvoyDied(pid))

    @precondition(lambda self: self.fetches)
    @rule(data=st.data(), count=st.sampled_from([0, 1, 2, 3]))
    def a_fetch_ends(self, data: st.DataObject, count: int) -> None:
        number = data.draw(st.sampled_from(sorted(self.fetches)))
        pid = self.fetches.pop(number)
        self.open[number] = {pid}
        self.tell(Fetched(number, count))

    @rule(data=st.data())
    def a_rare_event(self, data: st.DataObject) -> None:
        """One rule for all of these, so that they do not outnumber the frequent events."""
        number = data.draw(st.integers(min_value=0, max_value=self.state.next_number))
        match data.draw(st.sampled_from(["timer", "child", "fetch", "check", "release", "close"])):
            case "timer":
                self.tell(retention.CheckDue(number))
                self.tell(WaitOver(number))
            case "child" if self.alive is None:
                self.tell(EnvoyStarts(StartKind.FROM_DEAD_PARENT))
                self.pids += 1
                self.tell(EnvoyDied(self.pids))
            case "child":
                self.tell(EnvoyStarts(StartKind.FROM_PARENT))
                self.tell(retention.ChildFailed())
            case "fetch" if number in self.fetches:
                del self.fetches[number]
                self.tell(FetchFailed(number, self.serving))
            case "check" if isinstance(self.state.retained, Shared):
                self.tell(NotShared(self.state.retained.sockets, self.serving))
            case "release":
                self.tell(Release())
                assert not self.open
            case "close":
                self.closed = True
                self.tell(Release(for_good=True))
                assert not self.open
            case _:
                pass  # there is nothing that it could happen to

    @rule(changing=st.booleans(), seconds=st.floats(min_value=0, max_value=1))
    def listeners_change(self, *, changing: bool, seconds: float) -> None:
        self.now += seconds
        self.changing = changing
        self.tell(ListenersChanging() if changing else ListenersChanged(self.serving))

    @invariant()
    def every_open_set_is_the_retained_one(self) -> None:
        retained = self.state.retained
        assert set(self.open) == (set() if retained is None else {retained.sockets})

    @invariant()
    def a_set_belongs_to_the_envoy_that_lives_or_waits_for_the_next(self) -> None:
        self.check_owner()

    @invariant()
    def only_an_envoy_that_serves_is_asked(self) -> None:
        assert self.state.fetch is None or self.state.fetch.pid == self.alive

    def check_owner(self) -> None:
        if self.changing or self.closed:
            assert not isinstance(self.state.retained, Shared)
        match self.state.retained:
            case Shared(sockets=sockets, pid=pid):
                assert pid == self.alive
                assert self.open[sockets] == {pid}
                assert sockets not in self.orphaned
            case Orphaned(sockets=sockets):
                assert self.alive is None
                assert sockets in self.orphaned
            case None:
                assert not self.orphaned

    @invariant()
    def no_socket_is_shared_while_listeners_change_or_after_the_end(self) -> None:
        if self.changing or self.closed:
            assert self.state.fetch is None


TestAnyHistory = AnyHistory.TestCase
TestAnyHistory.settings = settings(max_examples=60, stateful_step_count=40, deadline=None)


class ManyMoreHistories(AnyHistory):
    """The same, with as many histories as find what few do not."""


TestManyMoreHistories = pytest.mark.slow(ManyMoreHistories.TestCase)
TestManyMoreHistories.settings = settings(max_examples=600, stateful_step_count=40, deadline=None)
