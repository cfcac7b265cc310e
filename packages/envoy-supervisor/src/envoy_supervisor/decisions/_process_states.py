"""The state that decisions about Envoy processes are made from: plain values.

Processes that can hand over to each other (hot restart) form a family; within it each has the next
epoch.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


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
    """One process. `number` is never used twice; `version` names what it was started with.

    heir: it takes over from a process that has died, whose listening sockets were kept.
    """

    number: int
    family: int
    epoch: int
    version: str
    stage: Stage = Stage.STARTING
    heir: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Legacy:
    """Where a process stood that has died and whose listening sockets are kept for the next."""

    family: int
    epoch: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Fleet:
    """Everything decisions are made from.

    wanted: the version to run; good: the last version that became ready.
    crashes: the times of recent ones. failures: restarts that failed in a row.
    not_before: no start before this time.
    blind: a child that failed, or was ended, may have closed the serving process's admin interface.
    legacy: what the next process takes over, if nothing serves.
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
    legacy: Legacy | None = None
    verdict: int | None = None

    def member(self, number: int) -> Member | None:
        """The member of that number, if it is alive."""
        return next((member for member in self.members if member.number == number), None)

    def first(self, stage: Stage) -> Member | None:
        """The member at that stage; there is at most one starting and one ready."""
        return next((member for member in self.members if member.stage is stage), None)

    @property
    def settled(self) -> str | None:
        """The version that serves, if it is the one that is wanted and none is about to take over.

        A version may have been given up before it was ever started: then no start tells it.
        """
        ready = self.first(Stage.READY)
        if ready is None or ready.version != self.wanted or self.first(Stage.STARTING) is not None:
            return None
        return ready.version
