"""The state of socket retention, the events that change it, and the actions that follow.

A set of sockets is named by the number of the fetch that brought it.
"""

from __future__ import annotations

import math
from enum import StrEnum
from typing import NamedTuple, TypeAlias

import msgspec


class Serving(NamedTuple):
    """The Envoy that serves, if its answers come to the supervisor and not to a child.

    retainable: its configuration allows that its sockets are retained.
    """

    pid: int
    retainable: bool


class Shared(NamedTuple):
    """A set of sockets that a running Envoy has too. `check` numbers the newest check timer."""

    sockets: int
    pid: int
    check: int


class Orphaned(NamedTuple):
    """A set of sockets whose Envoy has died."""

    sockets: int


class Fetch(NamedTuple):
    """The fetch under way whose answer is wanted. Its number becomes the name of the set."""

    number: int
    pid: int


class RetentionState(NamedTuple):
    """Everything that decisions are based on."""

    retained: Shared | Orphaned | None = None
    fetch: Fetch | None = None
    listeners_changing: bool = False
    listeners_changed_at: float = -math.inf
    closed: bool = False
    next_number: int = 0


# --- events


class StartKind(StrEnum):
    """How a process that is about to start comes to its listening sockets."""

    BINDS = "it binds them"
    FROM_DEAD_PARENT = "from the supervisor, as its parent has died"
    FROM_PARENT = "from its parent, which has as many worker threads"
    FROM_PARENT_OF_OTHER_SIZE = "from its parent, which has another number of worker threads"


class EnvoyReady(msgspec.Struct, frozen=True):
    """An Envoy has become ready."""

    serving: Serving


class ChildServes(msgspec.Struct, frozen=True):
    """The child of a dead Envoy says that it serves: it has asked for all its sockets."""

    pid: int


class EnvoyStarts(msgspec.Struct, frozen=True):
    """A process is about to be started."""

    kind: StartKind


class ChildFailed(msgspec.Struct, frozen=True):
    """A child has ended before it served; its parent serves on."""


class EnvoyDied(msgspec.Struct, frozen=True):
    """An Envoy that served, or the child of a dead one, has died."""

    pid: int


class Fetched(msgspec.Struct, frozen=True):
    """A fetch has brought a set of sockets. `count` is its size."""

    number: int
    count: int


class FetchFailed(msgspec.Struct, frozen=True):
    """Envoy could not be asked just now."""

    sockets: int
    serving: Serving | None


class CheckDue(msgspec.Struct, frozen=True):
    """The time has come to look whether Envoy still has the shared sockets."""

    check: int


class NotShared(msgspec.Struct, frozen=True):
    """A check has found that Envoy does not have all sockets of that set any more."""

    sockets: int
    serving: Serving | None


class WaitOver(msgspec.Struct, frozen=True):
    """Connections have waited long enough on sockets that no new Envoy has asked for."""

    sockets: int


class ListenersChanging(msgspec.Struct, frozen=True):
    """Envoy is about to hear of other listeners."""


class ListenersChanged(msgspec.Struct, frozen=True):
    """Envoy has answered to the last change of listeners."""

    serving: Serving | None


class Release(msgspec.Struct, frozen=True):
    """No socket is to be retained for now. `for_good`: nor later."""

    for_good: bool = False


Event: TypeAlias = (
    EnvoyReady
    | ChildServes
    | EnvoyStarts
    | ChildFailed
    | EnvoyDied
    | Fetched
    | FetchFailed
    | CheckDue
    | NotShared
    | WaitOver
    | ListenersChanging
    | ListenersChanged
    | Release
)

# --- actions


class FetchSockets(msgspec.Struct, frozen=True):
    """Fetch the sockets of that Envoy after a wait; answer with `Fetched` or `FetchFailed`."""

    number: int
    pid: int
    after_s: float


class Check(msgspec.Struct, frozen=True):
    """Look whether Envoy has all sockets of the set, and send `NotShared` if it has not."""

    sockets: int


class CheckLater(msgspec.Struct, frozen=True):
    """Send `CheckDue` after `CHECK_INTERVAL_S`."""

    check: int


class LetConnectionsWait(msgspec.Struct, frozen=True):
    """No Envoy accepts on these sockets: let more connections wait."""

    sockets: int


class EndWaitLater(msgspec.Struct, frozen=True):
    """Send `WaitOver` after `MAX_WAIT_S`."""

    sockets: int


class HandOver(msgspec.Struct, frozen=True):
    """Close the sockets that the new Envoy did not ask for; the others are its own."""

    sockets: int
    pid: int


class KeepThoseOf(msgspec.Struct, frozen=True):
    """Close the sockets that this Envoy, which served after a hot restart, has not taken over."""

    sockets: int
    pid: int


class CloseNotPassed(msgspec.Struct, frozen=True):
    """Close the sockets that no new Envoy has asked for."""

    sockets: int


class Close(msgspec.Struct, frozen=True):
    """Close all sockets of the set."""

    sockets: int


Action: TypeAlias = (
    FetchSockets
    | Check
    | CheckLater
    | LetConnectionsWait
    | EndWaitLater
    | HandOver
    | KeepThoseOf
    | CloseNotPassed
    | Close
)
