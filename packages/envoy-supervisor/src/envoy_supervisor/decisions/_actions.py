"""The actions that `decide` answers with: what is to be done about Envoy processes."""

from __future__ import annotations

from typing import TypeAlias

import msgspec

from envoy_supervisor.decisions._state import ProcessState


class Start(msgspec.Struct, frozen=True):
    """Start this process."""

    process: ProcessState


class ProbeAdmin(msgspec.Struct, frozen=True):
    """Ask its admin interface once, and send `AdminAnswered` if it answers."""

    number: int


class ScheduleParentShutdown(msgspec.Struct, frozen=True):
    """Send `ParentShutdownDue` when the parent's time to finish requests is over."""

    number: int


class Terminate(msgspec.Struct, frozen=True):
    """Tell the process to exit, and send `ExitOverdue` if it does not."""

    number: int


class Kill(msgspec.Struct, frozen=True):
    """End the process by force."""

    number: int


class WakeAt(msgspec.Struct, frozen=True):
    """Send `Tick` at this time."""

    when: float


class ReportRefused(msgspec.Struct, frozen=True):
    """Report that a version was tried and does not work; the one before it runs on."""

    version: str
    number: int


class ReportCrashed(msgspec.Struct, frozen=True):
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
