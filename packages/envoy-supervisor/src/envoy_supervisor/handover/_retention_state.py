"""The state of socket retention, the events that change it, and the actions that follow.

A set of sockets is named by the number of the fetch that brought it.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from enum import StrEnum
from typing import NamedTuple, TypeAlias


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
    """Everything that decisions are made from."""

    retained: Shared | Orphaned | None = None
    fetch: Fetch | None = None
    listeners_changing: bool = False
    listeners_changed_at: float = -math.inf
    closed: bool = False
    next_number: int = 0


# Subclasses take over an equality that tells them apart; a decorator for each would double the
# time this module takes to load.
@dataclass(frozen=True, slots=True)
class _Plain:
    pass


@dataclass(frozen=True, slots=True)
class _OfProcess:
    pid: int


@dataclass(frozen=True, slots=True)
class _OfSet:
    sockets: int


@dataclass(frozen=True, slots=True)
class _OfCheck:
    check: int


@dataclass(frozen=True, slots=True)
class _OfSetAndServing:
    sockets: int
    serving: Serving | None


@dataclass(frozen=True, slots=True)
class _OfSetAndProcess:
    sockets: int
    pid: int


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


class ChildServes(_OfProcess):
    """The child of a dead Envoy says that it serves: it has asked for all its sockets."""

    __slots__ = ()


@dataclass(frozen=True, slots=True)
class EnvoyStarts:
    """A process is about to be started."""

    kind: StartKind


class ChildFailed(_Plain):
    """A child has ended before it served; its parent serves on."""

    __slots__ = ()


class EnvoyDied(_OfProcess):
    """An Envoy that served, or the child of a dead one, has died."""

    __slots__ = ()


@dataclass(frozen=True, slots=True)
class Fetched:
    """A fetch has brought a set of sockets. `count` is its size."""

    number: int
    count: int


class FetchFailed(_OfSetAndServing):
    """Envoy could not be asked just now."""

    __slots__ = ()


class CheckDue(_OfCheck):
    """The time has come to look whether Envoy still has the shared sockets."""

    __slots__ = ()


class NotShared(_OfSetAndServing):
    """A check has found that Envoy does not have all sockets of that set any more."""

    __slots__ = ()


class WaitOver(_OfSet):
    """Connections have waited long enough on sockets that no new Envoy has asked for."""

    __slots__ = ()


class ListenersChanging(_Plain):
    """Envoy is about to hear of other listeners."""

    __slots__ = ()


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


class Check(_OfSet):
    """Look whether Envoy has all sockets of the set, and send `NotShared` if it has not."""

    __slots__ = ()


class CheckLater(_OfCheck):
    """Send `CheckDue` after `CHECK_INTERVAL_S`."""

    __slots__ = ()


class LetConnectionsWait(_OfSet):
    """No Envoy accepts on these sockets: let more connections wait."""

    __slots__ = ()


class EndWaitLater(_OfSet):
    """Send `WaitOver` after `MAX_WAIT_S`."""

    __slots__ = ()


class HandOver(_OfSetAndProcess):
    """Close the sockets that the new Envoy did not ask for; the others are its own."""

    __slots__ = ()


class KeepThoseOf(_OfSetAndProcess):
    """Close the sockets that this Envoy, which served after a hot restart, has not taken over."""

    __slots__ = ()


class CloseNotPassed(_OfSet):
    """Close the sockets that no new Envoy has asked for."""

    __slots__ = ()


class Close(_OfSet):
    """Close all sockets of the set."""

    __slots__ = ()


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
