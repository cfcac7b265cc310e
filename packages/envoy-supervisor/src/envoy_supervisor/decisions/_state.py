"""The state that decisions about Envoy processes are based on: plain values.

Processes that take over from each other by hot restart form a series: they share a base id, and
each has the next epoch.
"""

from __future__ import annotations

from enum import StrEnum

import msgspec


class Stage(StrEnum):
    """How far a process is."""

    STARTING = "starting"
    READY = "ready"
    RETIRING = "retiring"
    """A newer epoch serves; this process finishes the requests it has."""
    ENDING = "ending"
    """The process was asked to exit."""


class Phase(StrEnum):
    """How far the supervisor is, over all processes."""

    RUNNING = "running"
    DRAINING = "draining"
    ENDING = "ending"
    ENDED = "ended"


class ProcessState(msgspec.Struct, frozen=True, kw_only=True):
    """One process. `number` is never used twice; `version` names what it was started with.

    parent_died: the process takes over from one that has died, whose listening sockets were
        retained.
    """

    number: int
    series: int
    epoch: int
    version: str
    stage: Stage = Stage.STARTING
    parent_died: bool = False


class DeadParent(msgspec.Struct, frozen=True, kw_only=True):
    """The series and epoch of a process that died and whose listening sockets are retained."""

    series: int
    epoch: int


class SupervisorState(msgspec.Struct, frozen=True, kw_only=True):
    """Everything that decisions are based on.

    wanted: the version to run. last_good: the last version that became ready.
    crashes: the times of recent crashes. failures: restarts that failed in a row.
    not_before: no process is started before this time.
    admin_may_be_closed: a child that failed, or was ended, may have closed the admin interface of
        the process that serves.
    dead_parent: the process that the next one takes over from, if none serves.
    gave_up_on: the process whose end is the reason for giving up.
    """

    phase: Phase = Phase.RUNNING
    processes: tuple[ProcessState, ...] = ()
    wanted: str
    last_good: str | None = None
    next_number: int = 0
    next_series: int = 0
    crashes: tuple[float, ...] = ()
    failures: int = 0
    not_before: float = 0.0
    admin_may_be_closed: bool = False
    dead_parent: DeadParent | None = None
    gave_up_on: int | None = None

    def process(self, number: int) -> ProcessState | None:
        """Return the process of that number, if it is alive."""
        return next((process for process in self.processes if process.number == number), None)

    def first(self, stage: Stage) -> ProcessState | None:
        """Return the process at that stage; at most one is starting, and at most one is ready."""
        return next((process for process in self.processes if process.stage is stage), None)

    def has_epoch(self, series: int, epoch: int) -> bool:
        """Return whether a process of that series and epoch is alive, or about to be started."""
        return any((each.series, each.epoch) == (series, epoch) for each in self.processes)

    @property
    def rolled_out(self) -> str | None:
        """The version that serves, if it is the wanted one and no other is about to take over.

        A version may have been given up before it was ever started: then no start reports it.
        """
        ready = self.first(Stage.READY)
        if ready is None or ready.version != self.wanted or self.first(Stage.STARTING) is not None:
            return None
        return ready.version
