"""Decides when an Envoy's listening sockets are retained, handed to the next Envoy, and released.

Pure: `decide` takes what happened and returns the new state and what to do. A set of sockets is
named by the number of the fetch that brought it; the descriptors themselves are the caller's.

While Envoy runs, a retained set is *shared* with it. Whatever makes it uncertain that Envoy still
has the same sockets releases the set at once, because connections to a socket that only the
supervisor holds are never accepted. When Envoy dies, the set is *orphaned*: connections wait on it
until the next Envoy has taken its sockets over, and then it is shared with that one.
"""

from __future__ import annotations

from typing import TypeAlias, assert_never

from envoy_supervisor.handover._retention_state import (
    Action,
    Check,
    CheckDue,
    CheckLater,
    ChildFailed,
    ChildServes,
    Close,
    CloseNotPassed,
    EndWaitLater,
    EnvoyDied,
    EnvoyReady,
    EnvoyStarts,
    Event,
    Fetch,
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

CHECK_INTERVAL_S = 5.0
"""For so long may a socket be retained that Envoy has closed without telling."""
MAX_WAIT_S = 10.0
"""For so long do connections wait for a new Envoy that does not ask for their socket."""
SETTLE_S = 0.25
"""A control plane that changes listeners in quick succession shall not have all sockets fetched
after each change: only the first change is followed at once."""


Decision: TypeAlias = tuple[RetentionState, tuple[Action, ...]]


def decide(state: RetentionState, event: Event, *, now: float) -> Decision:
    """Return the state after an event, and what to do now."""
    match event:
        case EnvoyReady() | ChildServes() | EnvoyStarts() | ChildFailed() | EnvoyDied():
            return _after_process_event(state, event)
        case ListenersChanging() | ListenersChanged():
            return _after_listener_event(state, event, now=now)
        case Release(for_good):
            return _released(state._replace(closed=state.closed or for_good))
        case Fetched() | FetchFailed() | CheckDue() | NotShared() | WaitOver():
            return _after_socket_event(state, event)
        case _:
            assert_never(event)


def _after_process_event(
    state: RetentionState, event: EnvoyReady | ChildServes | EnvoyStarts | ChildFailed | EnvoyDied
) -> Decision:
    match event:
        case EnvoyReady(serving):
            return _after_ready(state, serving, after_s=0.0)
        case ChildServes(pid):
            return _handed_over(state, pid)
        case EnvoyStarts(kind):
            return _before_start(state, kind)
        case ChildFailed():
            return _checked(state)
        case EnvoyDied(pid):
            return _after_death(state, pid)
        case _:
            assert_never(event)


def _after_listener_event(
    state: RetentionState, event: ListenersChanging | ListenersChanged, *, now: float
) -> Decision:
    match event:
        case ListenersChanging():
            state = state._replace(listeners_changing=True)
            # The sockets of a dead Envoy are for the next one.
            return (state, ()) if isinstance(state.retained, Orphaned) else _released(state)
        case ListenersChanged(serving):
            settled = now - state.listeners_changed_at >= SETTLE_S
            state = state._replace(listeners_changing=False, listeners_changed_at=now)
            if serving is None or isinstance(state.retained, Orphaned):
                return state, ()
            return _after_ready(state, serving, after_s=0.0 if settled else SETTLE_S)
        case _:
            assert_never(event)


def _after_socket_event(
    state: RetentionState, event: Fetched | FetchFailed | CheckDue | NotShared | WaitOver
) -> Decision:
    match event:
        case Fetched(number, count):
            return _after_fetch(state, number, count)
        case FetchFailed(number, serving):
            return _after_failed_fetch(state, number, serving)
        case CheckDue(check):
            if not isinstance(state.retained, Shared) or state.retained.check != check:
                return state, ()
            return state, (Check(state.retained.sockets), CheckLater(check))
        case NotShared(sockets, serving):
            return _after_failed_check(state, sockets, serving)
        case WaitOver(sockets):
            waiting = state.retained == Orphaned(sockets=sockets)
            return state, ((CloseNotPassed(sockets),) if waiting else ())
        case _:
            assert_never(event)


def _after_ready(state: RetentionState, serving: Serving, *, after_s: float) -> Decision:
    state, actions = _handed_over(state, serving.pid)
    retained = state.retained
    if isinstance(retained, Shared) and retained.pid != serving.pid:
        # After a hot restart: the child has its sockets from its parent.
        state = state._replace(retained=retained._replace(pid=serving.pid))
        actions = (*actions, KeepThoseOf(retained.sockets, serving.pid))
    if state.closed or state.listeners_changing or not serving.retainable:
        state, released = _released(state)
        return state, (*actions, *released)
    fetch = Fetch(number=state.next_number, pid=serving.pid)
    state = state._replace(fetch=fetch, next_number=fetch.number + 1)
    return state, (*actions, FetchSockets(fetch.number, fetch.pid, after_s))


def _handed_over(state: RetentionState, pid: int) -> Decision:
    if not isinstance(state.retained, Orphaned):
        return state, ()
    sockets, check = state.retained.sockets, state.next_number
    state = state._replace(
        retained=Shared(sockets=sockets, pid=pid, check=check),
        next_number=check + 1,
    )
    if state.listeners_changing:
        state, released = _released(state)
        return state, (HandOver(sockets, pid), *released)
    return state, (HandOver(sockets, pid), CheckLater(check))


def _before_start(state: RetentionState, kind: StartKind) -> Decision:
    match kind:
        case StartKind.BINDS:
            # A retained socket would take connections that are meant for the new Envoy's own.
            return _released(state)
        case StartKind.FROM_DEAD_PARENT:
            return state._replace(fetch=None), ()
        case StartKind.FROM_PARENT:
            # An earlier child may have asked the parent to stop listening, and died.
            return _checked(state._replace(fetch=None))
        case StartKind.FROM_PARENT_OF_OTHER_SIZE:
            # The sockets of workers that the child does not have would be the supervisor's alone,
            # and get their share of connections.
            return _released(state)
        case _:
            assert_never(kind)


def _after_death(state: RetentionState, pid: int) -> Decision:
    state = state._replace(fetch=None)
    match state.retained:
        case Shared(sockets=sockets, pid=owner) if owner == pid:
            state = state._replace(retained=Orphaned(sockets=sockets))
            return state, (LetConnectionsWait(sockets), EndWaitLater(sockets))
        case Shared():
            return _released(state)
        case Orphaned(sockets=sockets):
            # The child that was to take them over died first: the next one gets them.
            return state, (LetConnectionsWait(sockets),)
        case None:
            return state, ()
        case _:
            assert_never(state.retained)


def _after_fetch(state: RetentionState, number: int, count: int) -> Decision:
    if state.fetch is None or state.fetch.number != number:
        return state, (Close(number),)
    before, pid = state.retained, state.fetch.pid
    closed = () if before is None else (Close(before.sockets),)
    if count == 0:
        return state._replace(retained=None, fetch=None), (*closed, Close(number))
    check = state.next_number
    state = state._replace(
        retained=Shared(sockets=number, pid=pid, check=check),
        fetch=None,
        next_number=check + 1,
    )
    return state, (*closed, CheckLater(check))


def _after_failed_fetch(state: RetentionState, number: int, serving: Serving | None) -> Decision:
    if state.fetch is None or state.fetch.number != number:
        return state, ()
    if serving is None or serving.pid != state.fetch.pid:
        return state._replace(fetch=None), ()
    return state, (FetchSockets(number, serving.pid, CHECK_INTERVAL_S),)


def _checked(state: RetentionState) -> Decision:
    if not isinstance(state.retained, Shared):
        return state, ()
    return state, (Check(state.retained.sockets),)


def _after_failed_check(state: RetentionState, sockets: int, serving: Serving | None) -> Decision:
    retained = state.retained
    if not isinstance(retained, Shared) or retained.sockets != sockets:
        return state, ()
    state = state._replace(retained=None)
    if state.fetch is not None or serving is None or serving.pid != retained.pid:
        return state, (Close(sockets),)
    state, actions = _after_ready(state, serving, after_s=0.0)
    return state, (Close(sockets), *actions)


def _released(state: RetentionState) -> Decision:
    closed = () if state.retained is None else (Close(state.retained.sockets),)
    return state._replace(retained=None, fetch=None), closed
