"""The events that `decide` takes: what has happened to Envoy processes, and what was requested."""

from __future__ import annotations

from typing import TypeAlias

import msgspec


class VersionRequested(msgspec.Struct, frozen=True):
    """Another version is to run."""

    version: str


class BecameReady(msgspec.Struct, frozen=True):
    """A starting process serves."""

    number: int


class AdminAnswered(msgspec.Struct, frozen=True):
    """A serving process has kept its admin interface."""

    number: int


class ReadyTimedOut(msgspec.Struct, frozen=True):
    """A starting process did not become ready in the time it has."""

    number: int


class Exited(msgspec.Struct, frozen=True):
    """A process has ended.

    final: starting the same again cannot help.
    sockets_retained: the listening sockets that the process had, or was to get, are retained for
        the next one.
    """

    number: int
    final: bool = False
    sockets_retained: bool = False


class ParentShutdownDue(msgspec.Struct, frozen=True):
    """A retiring process has had its time to finish requests."""

    number: int


class ExitOverdue(msgspec.Struct, frozen=True):
    """A process that was asked to exit has not."""

    number: int


class Tick(msgspec.Struct, frozen=True):
    """Time has passed."""


class StopRequested(msgspec.Struct, frozen=True):
    """Envoy is to drain, and no further process is to be started."""


class DrainFinished(msgspec.Struct, frozen=True):
    """No connection is worth waiting for any more."""


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
