"""Decides which Envoy processes there should be: when one is started, replaced and ended.

Pure: `decide` takes what happened and returns the new state and what to do. Envoy knows one parent
and one child, and ends a grandparent at once, in the middle of its requests: so a restart waits
until the parent of the one before has left.

If the listening sockets of a process that died could be retained, the next process continues its
series as the next epoch and gets the sockets. If that one fails, the next starts a new series.
"""

from __future__ import annotations

import random
from collections.abc import Iterable
from itertools import islice
from typing import TypeAlias, assert_never

from msgspec.structs import replace

from envoy_supervisor._config import CrashPolicy
from envoy_supervisor.decisions._actions import (
    Action,
    Kill,
    ProbeAdmin,
    ReportCrashed,
    ReportRefused,
    ScheduleParentShutdown,
    Start,
    Terminate,
    WakeAt,
)
from envoy_supervisor.decisions._events import (
    AdminAnswered,
    BecameReady,
    DrainFinished,
    Event,
    Exited,
    ExitOverdue,
    ParentShutdownDue,
    ReadyTimedOut,
    StopRequested,
    Tick,
    VersionRequested,
)
from envoy_supervisor.decisions._state import (
    DeadParent,
    Phase,
    ProcessState,
    Stage,
    SupervisorState,
)
from mesh_lifecycle import Backoff

Decision: TypeAlias = tuple[SupervisorState, tuple[Action, ...]]


def decide(
    state: SupervisorState, event: Event, *, now: float, policy: CrashPolicy, rng: random.Random
) -> Decision:
    """Return the state after an event, and what to do now.

    An event of a process that is long gone changes nothing.
    """
    state, first = _after_event(state, event, now=now, policy=policy, rng=rng)
    state, then = _reconciled(state, now=now)
    return state, (*first, *then)


def _after_event(
    state: SupervisorState, event: Event, *, now: float, policy: CrashPolicy, rng: random.Random
) -> Decision:
    decision: Decision = (state, ())
    match event:
        case VersionRequested(version):
            # A new request is tried at once, whatever became of the last one.
            not_before = min(state.not_before, now)
            decision = (replace(state, wanted=version, not_before=not_before), ())
        case BecameReady(number):
            decision = _after_ready(state, number)
        case AdminAnswered(number):
            decision = (_after_admin_answer(state, number), ())
        case ReadyTimedOut(number):
            decision = _after_ready_timeout(state, number, now=now, policy=policy, rng=rng)
        case Exited():
            decision = _after_exit(state, event, now=now, policy=policy, rng=rng)
        case ParentShutdownDue(number):
            decision = _end_if_still(state, number, Stage.RETIRING, Terminate(number))
        case ExitOverdue(number):
            decision = _end_if_still(state, number, Stage.ENDING, Kill(number))
        case StopRequested():
            decision = (_with_phase(state, Phase.DRAINING, after=(Phase.RUNNING,)), ())
        case DrainFinished():
            after = (Phase.RUNNING, Phase.DRAINING)
            decision = (_with_phase(state, Phase.ENDING, after=after), ())
        case Tick():
            pass
        case _:
            assert_never(event)
    return decision


def _end_if_still(state: SupervisorState, number: int, stage: Stage, action: Action) -> Decision:
    """End a process that is still at this stage, which it may have left in the meantime."""
    process = state.process(number)
    if process is None or process.stage is not stage:
        return state, ()
    return _with_stage(state, number, Stage.ENDING), (action,)


def _with_phase(
    state: SupervisorState, phase: Phase, *, after: tuple[Phase, ...]
) -> SupervisorState:
    return replace(state, phase=phase) if state.phase in after else state


def _after_ready(state: SupervisorState, number: int) -> Decision:
    process = state.process(number)
    if process is None or process.stage is not Stage.STARTING:
        return state, ()
    actions: tuple[Action, ...] = ()
    if (parent := state.first(Stage.READY)) is not None:
        state = _with_stage(state, parent.number, Stage.RETIRING)
        actions = (ScheduleParentShutdown(parent.number),)
    state = _with_stage(state, number, Stage.READY)
    return replace(state, last_good=process.version, admin_may_be_closed=False, failures=0), actions


def _after_admin_answer(state: SupervisorState, number: int) -> SupervisorState:
    """The failed child was gone before it closed its parent's admin interface."""
    ready = state.first(Stage.READY)
    if ready is None or ready.number != number or state.first(Stage.STARTING) is not None:
        return state
    return replace(state, admin_may_be_closed=False)


def _after_ready_timeout(
    state: SupervisorState, number: int, *, now: float, policy: CrashPolicy, rng: random.Random
) -> Decision:
    process = state.process(number)
    if process is None or process.stage is not Stage.STARTING:
        return state, ()
    state = _with_stage(state, number, Stage.ENDING)
    state, actions = _after_failure(
        state, process, final=False, sockets_retained=False, now=now, policy=policy, rng=rng
    )
    return state, (Kill(number), *actions)


def _after_exit(
    state: SupervisorState, event: Exited, *, now: float, policy: CrashPolicy, rng: random.Random
) -> Decision:
    process = state.process(event.number)
    if process is None:
        return state, ()
    state = replace(state, processes=tuple(each for each in state.processes if each is not process))
    if state.phase is not Phase.RUNNING or process.stage in (Stage.RETIRING, Stage.ENDING):
        return state, ()
    return _after_failure(
        state,
        process,
        final=event.final,
        sockets_retained=event.sockets_retained,
        now=now,
        policy=policy,
        rng=rng,
    )


def _after_failure(
    state: SupervisorState,
    process: ProcessState,
    *,
    final: bool,
    sockets_retained: bool,
    now: float,
    policy: CrashPolicy,
    rng: random.Random,
) -> Decision:
    """A process that should serve has ended, or is given up."""
    actions: tuple[Action, ...] = ()
    unproven = process.stage is Stage.STARTING and process.version != state.last_good
    if unproven and state.last_good is not None:
        actions = (ReportRefused(process.version, process.number),)
        if state.wanted == process.version:
            state = replace(state, wanted=state.last_good)
        final = False
    if (parent := state.first(Stage.READY)) is not None:
        # The parent serves on. If its admin interface is gone, have it replaced, without hurry.
        failures = state.failures + 1
        delay_s = _delay(policy.backoff, failures, rng)
        state = replace(
            state, failures=failures, admin_may_be_closed=True, not_before=now + delay_s
        )
        return state, (*actions, ProbeAdmin(parent.number))
    if process.parent_died and process.stage is Stage.STARTING and not sockets_retained:
        # Perhaps the hand-over is what failed: a start without it shows that.
        return replace(state, not_before=now), actions
    if final:
        return replace(state, phase=Phase.ENDING, gave_up_on=process.number), actions
    dead_parent = _dead_parent(state, process) if sockets_retained else None
    if (child := state.first(Stage.STARTING)) is not None:
        # The child takes over from a process that is gone, and would wait for it in vain.
        state = _with_stage(state, child.number, Stage.ENDING)
        actions = (*actions, Kill(child.number))
    crashes = (*(at for at in state.crashes if at > now - policy.window_s), now)
    if len(crashes) > policy.budget:
        return replace(
            state, crashes=crashes, phase=Phase.ENDING, gave_up_on=process.number
        ), actions
    delay_s = _delay(policy.backoff, len(crashes) - 1, rng)
    state = replace(
        state,
        crashes=crashes,
        admin_may_be_closed=False,
        dead_parent=dead_parent,
        not_before=now + delay_s,
    )
    return state, (*actions, ReportCrashed(process.number, delay_s))


def _dead_parent(state: SupervisorState, dead: ProcessState) -> DeadParent:
    """Return where the next process continues: behind every epoch that was started."""
    series = [process for process in state.processes if process.series == dead.series]
    epoch = max(process.epoch for process in [dead, *series])
    return DeadParent(series=dead.series, epoch=epoch)


def _reconciled(state: SupervisorState, *, now: float) -> Decision:
    """Brings the processes in line with the phase and with the wanted version."""
    match state.phase:
        case Phase.ENDED:
            return state, ()
        case Phase.ENDING:
            state, actions = _terminated(state, state.processes)
            return (state, actions) if state.processes else (replace(state, phase=Phase.ENDED), ())
        case Phase.DRAINING:
            if not state.processes:
                return replace(state, phase=Phase.ENDED), ()
            # A half-started child cannot help any more: the requests are at its parent. The child
            # is killed, because one that is asked to exit has its parent exit as well.
            child = state.first(Stage.STARTING)
            if child is None or state.first(Stage.READY) is None:
                return state, ()
            state = _with_stage(
                replace(state, admin_may_be_closed=True), child.number, Stage.ENDING
            )
            return state, (Kill(child.number),)
        case Phase.RUNNING:
            return _running(state, now=now)
        case _:
            assert_never(state.phase)


def _running(state: SupervisorState, *, now: float) -> Decision:
    starting = state.first(Stage.STARTING)
    if starting is not None and starting.epoch == 0 and starting.version != state.wanted:
        # Nothing serves, and this one may wait for ever: its control plane's address may be wrong.
        return _terminated(state, [starting])
    if starting is not None or state.first(Stage.ENDING) is not None:
        return state, ()
    current = state.first(Stage.READY)
    parent_died = current is None and state.dead_parent is not None
    if current is None:
        series, epoch = state.next_series, 0
        if state.dead_parent is not None:
            series, epoch = state.dead_parent.series, state.dead_parent.epoch + 1
    else:
        if current.version == state.wanted and not state.admin_may_be_closed:
            return state, ()
        if state.first(Stage.RETIRING) is not None:
            return state, ()
        series, epoch = current.series, current.epoch + 1
    if now < state.not_before:
        return state, (WakeAt(state.not_before),)
    process = ProcessState(
        number=state.next_number,
        series=series,
        epoch=epoch,
        version=state.wanted,
        parent_died=parent_died,
    )
    state = replace(
        state,
        processes=(*state.processes, process),
        dead_parent=None,
        next_number=state.next_number + 1,
        next_series=max(state.next_series, series + 1),
    )
    return state, (Start(process),)


def _terminated(state: SupervisorState, processes: Iterable[ProcessState]) -> Decision:
    numbers = [process.number for process in processes if process.stage is not Stage.ENDING]
    for number in numbers:
        state = _with_stage(state, number, Stage.ENDING)
    return state, tuple(Terminate(number) for number in numbers)


def _with_stage(state: SupervisorState, number: int, stage: Stage) -> SupervisorState:
    return replace(
        state,
        processes=tuple(
            replace(process, stage=stage) if process.number == number else process
            for process in state.processes
        ),
    )


def _delay(backoff: Backoff, attempt: int, rng: random.Random) -> float:
    """Return the wait before the attempt of that number; before attempt 0 there is none."""
    return 0.0 if attempt <= 0 else next(islice(backoff.delays(rng), attempt - 1, None))
