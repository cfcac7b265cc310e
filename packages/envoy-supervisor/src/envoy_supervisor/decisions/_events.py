"""The events that `decide` takes: what has happened to Envoy processes, and what was requested."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias


# Subclasses take over an equality that tells them apart; a decorator for each would triple the
# time this module takes to load.
@dataclass(frozen=True, slots=True)
class _OfProcess:
    number: int


@dataclass(frozen=True, slots=True)
class _Plain:
    pass


@dataclass(frozen=True, slots=True)
class VersionRequested:
    """Another version is to run."""

    version: str


class BecameReady(_OfProcess):
    """A starting process serves."""

    __slots__ = ()


class AdminAnswered(_OfProcess):
    """A serving process has kept its admin interface."""

    __slots__ = ()


class ReadyTimedOut(_OfProcess):
    """A starting process did not become ready in the time it has."""

    __slots__ = ()


@dataclass(frozen=True, slots=True)
class Exited:
    """A process has ended.

    final: starting the same again cannot help.
    sockets_retained: the listening sockets that the process had, or was to get, are retained for
        the next one.
    """

    number: int
    final: bool = False
    sockets_retained: bool = False


class ParentShutdownDue(_OfProcess):
    """A retiring process has had its time to finish requests."""

    __slots__ = ()


class ExitOverdue(_OfProcess):
    """A process that was told to exit has not."""

    __slots__ = ()


class Tick(_Plain):
    """Time has passed."""

    __slots__ = ()


class StopRequested(_Plain):
    """Envoy is to drain, and no further process is to be started."""

    __slots__ = ()


class DrainFinished(_Plain):
    """No connection is worth waiting for any more."""

    __slots__ = ()


Event: TypeAlias = (
    VersionRequested
    | BecameReady
    | AdminAnswered
    | ReadyTimedOut
    | Exited
    | ParentShutdownDue
    | ExitOverdue
    | Tick
    | StopRequested
    | DrainFinished
)
