"""Which Envoy processes there should be: every decision about starting, replacing and ending them.

Pure: `advance` takes what happened and returns the new state and what to do. Processes that can
hand over to each other (hot restart) form a family; within it each has the next epoch. Envoy
knows one parent and one child, and ends a grandparent at once, in the middle of its requests: so a
restart waits until the one before has left.
"""

from __future__ import annotations

import random
from collections.abc import Iterable
from dataclasses import dataclass, replace
from enum import StrEnum
from itertools import islice
from typing import TypeAlias, assert_never

from mesh_lifecycle import Backoff


class Stage(StrEnum):
    """How far a process is."""

    STARTING = "starting"
    READY = "ready"
    RETIRING = "retiring"
    """A newer epoch serves; this one finishes what it has."""
    ENDING = "ending"
    """It was told to exit."""


class Phase(StrEnum):
    """What all of them are for."""

    RUNNING = "running"
    DRAINING = "draining"
    ENDING = "ending"
    ENDED = "ended"


@dataclass(frozen=True, slots=True, kw_only=True)
class Member:
    """One process. `number` is never used twice; `version` names what it was started with."""

    number: int
    family: int
    epoch: int
    version: str
    stage: Stage = Stage.STARTING


_BACKOFF = Backoff(initial_s=0.2, maximum_s=10.0, multiplier=2.0, jitter=0.2)


@dataclass(frozen=True, slots=True, kw_only=True)
class CrashPolicy:
    """What to do when Envoy ends by itself.

    budget: how many crashes within `window_s` are answered by a new start; one more and the
        supervisor gives up with the last crash's reason, so that whoever runs it can act. Zero
        never starts again.
    window_s: how long a crash counts.
    backoff: the wait before a new start; the first crash in the window is answered at once.
    """

    budget: int = 5
    window_s: float = 120.0
    backoff: Backoff = _BACKOFF


@dataclass(frozen=True, slots=True, kw_only=True)
class Fleet:
    """Everything decisions are made from.

    wanted: the version to run; good: the last version that became ready.
    crashes: the times of recent ones. failures: restarts that failed in a row.
    not_before: no start before this time.
    blind: a failed child may have closed the serving process's admin interface.
    verdict: the member whose end is the reason for giving up.
    """

    phase: Phase = Phase.RUNNING
    members: tuple[Member, ...] = ()
    wanted: str
    good: str | None = None
    next_number: int = 0
    next_family: int = 0
    crashes: tuple[float, ...] = ()
    failures: int = 0
    not_before: float = 0.0
    blind: bool = False
    verdict: int | None = None

    def member(self, number: int) -> Member | None:
        """The member of that number, if it is alive."""
        return next((member for member in self.members if member.number == number), None)

    def first(self, stage: Stage) -> Member | None:
        """The member at that stage; there is at most one starting and one ready."""
        return next((member for member in self.members if member.stage is stage), None)


# --- what happens


# Subclasses inherit equality that tells them apart; a decorator for each would triple the time
# this module takes to load.
@dataclass(frozen=True, slots=True)
class _About:
    number: int


@dataclass(frozen=True, slots=True)
class _Fact:
    pass


@dataclass(frozen=True, slots=True)
class Wanted:
    """Another version is to run."""

    version: str


class BecameReady(_About):
    """A starting process serves."""

    __slots__ = ()


class TookTooLong(_About):
    """A starting process is given up."""

    __slots__ = ()


@dataclass(frozen=True, slots=True)
class Exited:
    """A process has ended. `final`: starting the same again cannot help."""

    number: int
    final: bool = False


class RetireDue(_About):
    """A retiring process has had its time."""

    __slots__ = ()


class Overdue(_About):
    """A process that was told to exit did not."""

    __slots__ = ()


class Tick(_Fact):
    """Time has passed."""

    __slots__ = ()


class StopAsked(_Fact):
    """Drain; start nothing more."""

    __slots__ = ()


class DrainOver(_Fact):
    """Nothing is worth waiting for any more."""

    __slots__ = ()


Event: TypeAlias = (
    Wanted | BecameReady | TookTooLong | Exited | RetireDue | Overdue | Tick | StopAsked | DrainOver
)

# --- what to do


@dataclass(frozen=True, slots=True)
class Start:
    """Start a process for this member."""

    member: Member


class Retire(_About):
    """Send `RetireDue` when the parent's time is over."""

    __slots__ = ()


class Terminate(_About):
    """Tell it to exit, and send `Overdue` if it does not."""

    __slots__ = ()


class Kill(_About):
    """End it."""

    __slots__ = ()


@dataclass(frozen=True, slots=True)
class WakeAt:
    """Send `Tick` at this time."""

    when: float


@dataclass(frozen=True, slots=True)
class Refused:
    """A version was tried and does not work; the one before is kept or started again."""

    version: str
    number: int


@dataclass(frozen=True, slots=True)
class Crashed:
    """A process ended by itself and is replaced after a wait."""

    number: int
    delay_s: float


Action: TypeAlias = Start | Retire | Terminate | Kill | WakeAt | Refused | Crashed


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
        case TookTooLong(number):
            return _given_up(fleet, number, now=now, policy=policy, rng=rng)
        case Exited(number, final):
            return _exited(fleet, number, final=final, now=now, policy=policy, rng=rng)
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


def _given_up(
    fleet: Fleet, number: int, *, now: float, policy: CrashPolicy, rng: random.Random
) -> tuple[Fleet, tuple[Action, ...]]:
    member = fleet.member(number)
    if member is None or member.stage is not Stage.STARTING:
        return fleet, ()
    fleet = _staged(fleet, number, Stage.ENDING)
    fleet, actions = _failed(fleet, member, final=False, now=now, policy=policy, rng=rng)
    return fleet, (Kill(number), *actions)


def _exited(
    fleet: Fleet, number: int, *, final: bool, now: float, policy: CrashPolicy, rng: random.Random
) -> tuple[Fleet, tuple[Action, ...]]:
    member = fleet.member(number)
    if member is None:
        return fleet, ()
    fleet = replace(fleet, members=tuple(m for m in fleet.members if m.number != number))
    if fleet.phase is not Phase.RUNNING or member.stage in (Stage.RETIRING, Stage.ENDING):
        return fleet, ()
    return _failed(fleet, member, final=final, now=now, policy=policy, rng=rng)


def _failed(
    fleet: Fleet,
    member: Member,
    *,
    final: bool,
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
    if fleet.first(Stage.READY) is not None:
        # The parent serves on, but its admin interface is gone: have it replaced, without hurry.
        failures = fleet.failures + 1
        delay_s = _delay(policy.backoff, failures, rng)
        return replace(fleet, failures=failures, blind=True, not_before=now + delay_s), actions
    if final:
        return replace(fleet, phase=Phase.ENDING, verdict=member.number), actions
    if (child := fleet.first(Stage.STARTING)) is not None:
        # It takes over from a process that is gone, and would wait for it in vain.
        fleet = _staged(fleet, child.number, Stage.ENDING)
        actions = (*actions, Kill(child.number))
    crashes = (*(at for at in fleet.crashes if at > now - policy.window_s), now)
    if len(crashes) > policy.budget:
        return replace(fleet, crashes=crashes, phase=Phase.ENDING, verdict=member.number), actions
    delay_s = _delay(policy.backoff, len(crashes) - 1, rng)
    fleet = replace(fleet, crashes=crashes, blind=False, not_before=now + delay_s)
    return fleet, (*actions, Crashed(member.number, delay_s))


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
            if fleet.first(Stage.READY) is None:
                return fleet, ()
            return _ended(fleet, filter(None, [fleet.first(Stage.STARTING)]))
        case Phase.RUNNING:
            return _running(fleet, now=now)
        case _:
            assert_never(fleet.phase)


def _running(fleet: Fleet, *, now: float) -> tuple[Fleet, tuple[Action, ...]]:
    if fleet.first(Stage.STARTING) is not None or fleet.first(Stage.ENDING) is not None:
        return fleet, ()
    current = fleet.first(Stage.READY)
    if current is None:
        family, epoch = fleet.next_family, 0
    else:
        if current.version == fleet.wanted and not fleet.blind:
            return fleet, ()
        if fleet.first(Stage.RETIRING) is not None:
            return fleet, ()
        family, epoch = current.family, current.epoch + 1
    if now < fleet.not_before:
        return fleet, (WakeAt(fleet.not_before),)
    member = Member(number=fleet.next_number, family=family, epoch=epoch, version=fleet.wanted)
    fleet = replace(
        fleet,
        members=(*fleet.members, member),
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
