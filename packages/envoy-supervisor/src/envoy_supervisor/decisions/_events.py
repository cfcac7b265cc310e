"""What can happen to Envoy processes, and what can be done about it: the words of `_fleet`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

from envoy_supervisor.decisions._process_states import Member

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


class Answers(_About):
    """A serving process has kept its admin interface."""

    __slots__ = ()


class TookTooLong(_About):
    """A starting process is given up."""

    __slots__ = ()


@dataclass(frozen=True, slots=True)
class Exited:
    """A process has ended.

    final: starting the same again cannot help.
    kept: the listening sockets it had, or was to get, are kept for the next one.
    """

    number: int
    final: bool = False
    kept: bool = False


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
    Wanted
    | BecameReady
    | Answers
    | TookTooLong
    | Exited
    | RetireDue
    | Overdue
    | Tick
    | StopAsked
    | DrainOver
)

# --- what to do


@dataclass(frozen=True, slots=True)
class Start:
    """Start a process for this member."""

    member: Member


class Probe(_About):
    """Ask it once, and send `Answers` if it does."""

    __slots__ = ()


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


Action: TypeAlias = Start | Probe | Retire | Terminate | Kill | WakeAt | Refused | Crashed
