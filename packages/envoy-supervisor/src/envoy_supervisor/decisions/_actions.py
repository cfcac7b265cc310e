"""The actions that `decide` answers with: what is to be done about Envoy processes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

from envoy_supervisor.decisions._state import ProcessState


# As for events: one decorator for all that say only which process is meant.
@dataclass(frozen=True, slots=True)
class _OnProcess:
    number: int


@dataclass(frozen=True, slots=True)
class Start:
    """Start this process."""

    process: ProcessState


class ProbeAdmin(_OnProcess):
    """Ask its admin interface once, and send `AdminAnswered` if it answers."""

    __slots__ = ()


class ScheduleParentShutdown(_OnProcess):
    """Send `ParentShutdownDue` when the parent's time to finish requests is over."""

    __slots__ = ()


class Terminate(_OnProcess):
    """Tell the process to exit, and send `ExitOverdue` if it does not."""

    __slots__ = ()


class Kill(_OnProcess):
    """End the process by force."""

    __slots__ = ()


@dataclass(frozen=True, slots=True)
class WakeAt:
    """Send `Tick` at this time."""

    when: float


@dataclass(frozen=True, slots=True)
class ReportRefused:
    """Report that a version was tried and does not work; the one before it runs on."""

    version: str
    number: int


@dataclass(frozen=True, slots=True)
class ReportCrashed:
    """Report that a process ended by itself and is replaced after a wait."""

    number: int
    delay_s: float


Action: TypeAlias = (
    Start
    | ProbeAdmin
    | ScheduleParentShutdown
    | Terminate
    | Kill
    | WakeAt
    | ReportRefused
    | ReportCrashed
)
