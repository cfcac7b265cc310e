"""The state of socket retention, the events that change it, and the actions that follow.

A set of sockets is named by the number of the fetch that brought it.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from enum import StrEnum
from typing import TypeAlias


@dataclass(frozen=True, slots=True, kw_only=True)
class Serving:
    """The Envoy that serves, if its answers come to the supervisor and not to a child.

    retainable: its configuration allows that its sockets are retained.
    """

    pid: int
    retainable: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Shared:
    """A set of sockets that a running Envoy has too. `check` numbers the newest check timer."""

    sockets: int
    pid: int
    check: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Orphaned:
    """A set of sockets whose Envoy has died."""

    sockets: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Fetch:
    """The fetch under way whose answer is wanted. Its number becomes the name of the set."""

    number: int
    pid: int


@dataclass(frozen=True, slots=True, kw_only=True)
class RetentionState:
    """Everything that decisions are made from."""

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


@dataclass(frozen=True, slots=True)
class EnvoyReady:
    """An Envoy has become ready."""

    serving: Serving


@dataclass(frozen=True, slots=True)
class ChildServes:
    """The child of a dead Envoy says that it serves: it has asked for all its sockets."""

    pid: int


@dataclass(frozen=True, slots=True)
class EnvoyStarts:
    """A process is about to be started."""

    kind: StartKind


@dataclass(frozen=True, slots=True)
class ChildFailed:
    """A child has ended before it served; its parent serves on."""


@dataclass(frozen=True, slots=True)
class EnvoyDied:
    """An Envoy that served, or the child of a dead one, has died."""

    pid: int


@dataclass(frozen=True, slots=True)
class Fetched:
    """A fetch has brought a set of sockets. `count` is its size."""

    number: int
    count: int


@dataclass(frozen=True, slots=True)
class FetchFailed:
    """Envoy could not be asked just now."""

    number: int
    serving: Serving | None


@dataclass(frozen=True, slots=True)
class CheckDue:
    """The time has come to look whether Envoy still has the shared sockets."""

    check: int


@dataclass(frozen=True, slots=True)
class NotShared:
    """A check has found that Envoy does not have all sockets of that set any more."""

    sockets: int
    serving: Serving | None


@dataclass(frozen=True, slots=True)
class WaitOver:
    """Connections have waited long enough on sockets that no new Envoy has asked for."""

    sockets: int


@dataclass(frozen=True, slots=True)
class ListenersChanging:
    """Envoy is about to hear of other listeners."""


@dataclass(frozen=True, slots=True)
class ListenersChanged:
    """Envoy has answered to the last change of listeners."""

    serving: Serving | None


@dataclass(frozen=True, slots=True)
class Release:
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


@dataclass(frozen=True, slots=True)
class FetchSockets:
    """Fetch the sockets of that Envoy after a wait; answer with `Fetched` or `FetchFailed`."""

    number: int
    pid: int
    after_s: float


@dataclass(frozen=True, slots=True)
class Check:
    """Look whether Envoy has all sockets of the set, and send `NotShared` if it has not."""

    sockets: int


@dataclass(frozen=True, slots=True)
class CheckLater:
    """Send `CheckDue` after `CHECK_INTERVAL_S`."""

    check: int


@dataclass(frozen=True, slots=True)
class LetConnectionsWait:
    """No Envoy accepts on these sockets: let more connections wait."""

    sockets: int


@dataclass(frozen=True, slots=True)
class EndWaitLater:
    """Send `WaitOver` after `MAX_WAIT_S`."""

    sockets: int


@dataclass(frozen=True, slots=True)
class HandOver:
    """Close the sockets that the new Envoy did not ask for; the others are its own."""

    sockets: int
    pid: int


@dataclass(frozen=True, slots=True)
class KeepThoseOf:
    """Close the sockets that this Envoy, which served after a hot restart, has not taken over."""

    sockets: int
    pid: int


@dataclass(frozen=True, slots=True)
class CloseNotPassed:
    """Close the sockets that no new Envoy has asked for."""

    sockets: int


@dataclass(frozen=True, slots=True)
class Close:
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
