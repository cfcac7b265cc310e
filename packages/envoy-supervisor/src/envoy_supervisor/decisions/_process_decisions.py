"""Which Envoy processes there should be: every decision about starting, replacing and ending them.

Pure: `advance` takes what happened and returns the new state and what to do. Envoy knows one parent
and one child, and ends a grandparent at once, in the middle of its requests: so a restart waits
until the one before has left.

A process that dies leaves its place in the family, if its listening sockets could be kept: its heir
is the next epoch and gets them. If the heir fails, the next one is the first of a new family.
"""

from __future__ import annotations

import random
from collections.abc import Iterable
from dataclasses import replace
from itertools import islice
from typing import assert_never

from envoy_supervisor._config import CrashPolicy
from envoy_supervisor.decisions._events import (
    Action,
    Answers,
    BecameReady,
    Crashed,
    DrainOver,
    Event,
    Exited,
    Kill,
    Overdue,
    Probe,
    Refused,
    Retire,
    RetireDue,
    Start,
    StopAsked,
    Terminate,
    Tick,
    TookTooLong,
    WakeAt,
    Wanted,
)
from envoy_supervisor.decisions._process_states import Fleet, Legacy, Member, Phase, Stage
from mesh_lifecycle import Backoff


def advance(
    fleet: Fleet, event: Event, *, now: float, policy: CrashPolicy, rng: random.Random
) -> tuple[Fleet, tuple[Action, ...]]:
    """The state after an event, and what to do now. News of processes long gone is ignored."""
    fleet, first = _answered(fleet, event, now=now, policy=policy, rng=rng)
    fleet, then = _settled(fleet, now=now)
    return fleet, (*first, *then)


def _answered(  # noqa: PLR0911 - one return an event reads best
    fleet: Fleet, event: Event, *, now: float, policy: CrashPolicy, rng: random.Random
) -> tuple[Fleet, tuple[Action, ...]]:
    match event:
        case Wanted(version):
            # A new wish is tried at once, whatever the last one came to.
            return replace(fleet, wanted=version, not_before=min(fleet.not_before, now)), ()
        case BecameReady(number):
            return _ready(fleet, number)
        case Answers(number):
            return _reachable(fleet, number), ()
        case TookTooLong(number):
            return _given_up(fleet, number, now=now, policy=policy, rng=rng)
        case Exited():
            return _exited(fleet, event, now=now, policy=policy, rng=rng)
        case RetireDue(number):
            return _late(fleet, number, Stage.RETIRING, Terminate(number))
        case Overdue(number):
            return _late(fleet, number, Stage.ENDING, Kill(number))
        case StopAsked():
            return _in_phase(fleet, Phase.DRAINING, after=(Phase.RUNNING,)), ()
        case DrainOver():
            return _in_phase(fleet, Phase.ENDING, after=(Phase.RUNNING, Phase.DRAINING)), ()
        case Tick():
            return fleet, ()
        case _:
            assert_never(event)


def _late(
    fleet: Fleet, number: int, stage: Stage, action: Action
) -> tuple[Fleet, tuple[Action, ...]]:
    """A process is still at a stage it should have left; it may have left in the meantime."""
    member = fleet.member(number)
    if member is None or member.stage is not stage:
        return fleet, ()
    return _staged(fleet, number, Stage.ENDING), (action,)


def _in_phase(fleet: Fleet, phase: Phase, *, after: tuple[Phase, ...]) -> Fleet:
    return replace(fleet, phase=phase) if fleet.phase in after else fleet


def _ready(fleet: Fleet, number: int) -> tuple[Fleet, tuple[Action, ...]]:
    member = fleet.member(number)
    if member is None or member.stage is not Stage.STARTING:
        return fleet, ()
    actions: tuple[Action, ...] = ()
    if (parent := fleet.first(Stage.READY)) is not None:
        fleet = _staged(fleet, parent.number, Stage.RETIRING)
        actions = (Retire(parent.number),)
    fleet = _staged(fleet, number, Stage.READY)
    return replace(fleet, good=member.version, blind=False, failures=0), actions


def _reachable(fleet: Fleet, number: int) -> Fleet:
    """A child that failed was gone before it closed its parent's admin interface."""
    ready = fleet.first(Stage.READY)
    if ready is None or ready.number != number or fleet.first(Stage.STARTING) is not None:
        return fleet
    return replace(fleet, blind=False)


def _given_up(
    fleet: Fleet, number: int, *, now: float, policy: CrashPolicy, rng: random.Random
) -> tuple[Fleet, tuple[Action, ...]]:
    member = fleet.member(number)
    if member is None or member.stage is not Stage.STARTING:
        return fleet, ()
    fleet = _staged(fleet, number, Stage.ENDING)
    fleet, actions = _failed(
        fleet, member, final=False, kept=False, now=now, policy=policy, rng=rng
    )
    return fleet, (Kill(number), *actions)


def _exited(
    fleet: Fleet, event: Exited, *, now: float, policy: CrashPolicy, rng: random.Random
) -> tuple[Fleet, tuple[Action, ...]]:
    member = fleet.member(event.number)
    if member is None:
        return fleet, ()
    fleet = replace(fleet, members=tuple(m for m in fleet.members if m is not member))
    if fleet.phase is not Phase.RUNNING or member.stage in (Stage.RETIRING, Stage.ENDING):
        return fleet, ()
    return _failed(
        fleet, member, final=event.final, kept=event.kept, now=now, policy=policy, rng=rng
    )


def _failed(
    fleet: Fleet,
    member: Member,
    *,
    final: bool,
    kept: bool,
    now: float,
    policy: CrashPolicy,
    rng: random.Random,
) -> tuple[Fleet, tuple[Action, ...]]:
    """A process that should have served does not."""
    actions: tuple[Action, ...] = ()
    unproven = member.stage is Stage.STARTING and member.version != fleet.good
    if unproven and fleet.good is not None:
        actions = (Refused(member.version, member.number),)
        if fleet.wanted == member.version:
            fleet = replace(fleet, wanted=fleet.good)
        final = False
    if (parent := fleet.first(Stage.READY)) is not None:
        # The parent serves on. If its admin interface is gone, have it replaced, without hurry.
        failures = fleet.failures + 1
        delay_s = _delay(policy.backoff, failures, rng)
        fleet = replace(fleet, failures=failures, blind=True, not_before=now + delay_s)
        return fleet, (*actions, Probe(parent.number))
    if member.heir and member.stage is Stage.STARTING and not kept:
        # Perhaps taking over is what failed: that is told by a start without.
        return replace(fleet, not_before=now), actions
    if final:
        return replace(fleet, phase=Phase.ENDING, verdict=member.number), actions
    legacy = _legacy(fleet, member) if kept else None
    if (child := fleet.first(Stage.STARTING)) is not None:
        # It takes over from a process that is gone, and would wait for it in vain.
        fleet = _staged(fleet, child.number, Stage.ENDING)
        actions = (*actions, Kill(child.number))
    crashes = (*(at for at in fleet.crashes if at > now - policy.window_s), now)
    if len(crashes) > policy.budget:
        return replace(fleet, crashes=crashes, phase=Phase.ENDING, verdict=member.number), actions
    delay_s = _delay(policy.backoff, len(crashes) - 1, rng)
    fleet = replace(fleet, crashes=crashes, blind=False, legacy=legacy, not_before=now + delay_s)
    return fleet, (*actions, Crashed(member.number, delay_s))


def _legacy(fleet: Fleet, dead: Member) -> Legacy:
    """Where the next one goes on: behind every epoch that was started."""
    family = [member for member in fleet.members if member.family == dead.family]
    epoch = max(member.epoch for member in [dead, *family])
    return Legacy(family=dead.family, epoch=epoch)


def _settled(fleet: Fleet, *, now: float) -> tuple[Fleet, tuple[Action, ...]]:
    """Bring the processes in line with the phase and with what is wanted."""
    match fleet.phase:
        case Phase.ENDED:
            return fleet, ()
        case Phase.ENDING:
            fleet, actions = _ended(fleet, fleet.members)
            return (fleet, actions) if fleet.members else (replace(fleet, phase=Phase.ENDED), ())
        case Phase.DRAINING:
            if not fleet.members:
                return replace(fleet, phase=Phase.ENDED), ()
            # A half-started child cannot help any more; its parent has what is left of requests.
            # Asked to exit it would have the parent exit as well: so it is not asked.
            child = fleet.first(Stage.STARTING)
            if child is None or fleet.first(Stage.READY) is None:
                return fleet, ()
            fleet = _staged(replace(fleet, blind=True), child.number, Stage.ENDING)
            return fleet, (Kill(child.number),)
        case Phase.RUNNING:
            return _running(fleet, now=now)
        case _:
            assert_never(fleet.phase)


def _running(fleet: Fleet, *, now: float) -> tuple[Fleet, tuple[Action, ...]]:
    starting = fleet.first(Stage.STARTING)
    if starting is not None and starting.epoch == 0 and starting.version != fleet.wanted:
        # Nothing serves, and it may wait for ever, such as for a control plane at a wrong address.
        return _ended(fleet, [starting])
    if starting is not None or fleet.first(Stage.ENDING) is not None:
        return fleet, ()
    current = fleet.first(Stage.READY)
    heir = current is None and fleet.legacy is not None
    if current is None:
        family, epoch = fleet.next_family, 0
        if fleet.legacy is not None:
            family, epoch = fleet.legacy.family, fleet.legacy.epoch + 1
    else:
        if current.version == fleet.wanted and not fleet.blind:
            return fleet, ()
        if fleet.first(Stage.RETIRING) is not None:
            return fleet, ()
        family, epoch = current.family, current.epoch + 1
    if now < fleet.not_before:
        return fleet, (WakeAt(fleet.not_before),)
    member = Member(
        number=fleet.next_number, family=family, epoch=epoch, version=fleet.wanted, heir=heir
    )
    fleet = replace(
        fleet,
        members=(*fleet.members, member),
        legacy=None,
        next_number=fleet.next_number + 1,
        next_family=max(fleet.next_family, family + 1),
    )
    return fleet, (Start(member),)


def _ended(fleet: Fleet, members: Iterable[Member]) -> tuple[Fleet, tuple[Action, ...]]:
    numbers = [member.number for member in members if member.stage is not Stage.ENDING]
    for number in numbers:
        fleet = _staged(fleet, number, Stage.ENDING)
    return fleet, tuple(Terminate(number) for number in numbers)


def _staged(fleet: Fleet, number: int, stage: Stage) -> Fleet:
    return replace(
        fleet,
        members=tuple(
            replace(member, stage=stage) if member.number == number else member
            for member in fleet.members
        ),
    )


def _delay(backoff: Backoff, attempt: int, rng: random.Random) -> float:
    """The wait before the attempt of that number; before attempt 0 there is none."""
    return 0.0 if attempt <= 0 else next(islice(backoff.delays(rng), attempt - 1, None))
