"""Refusals of one type by the agent, one after the other, as a control plane may make them.

Some control planes answer each NACK at once with the same response. Envoy answers it at once, too,
and both go on for ever. The agent answers the first refusal at once, and waits longer and longer
with those that follow; the log has the first one, each change of the reason, and one a minute.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import NamedTuple

from mesh_lifecycle import Backoff
from mesh_listening import LogLimiter

_WAITS = Backoff(initial_s=0.1, maximum_s=10.0, multiplier=2.0, jitter=0.2)
_QUIET_S = 60.0
_LOGGED_EVERY_S = 60.0


class Refusal(NamedTuple):
    """The consequences of a refusal.

    times: how often this was refused since it was last logged; 0 if it is not to be logged now.
    wait_s: so long the NACK is not sent.
    """

    times: int
    wait_s: float


class RefusalsInARow:
    """Of one type; synchronous, does no I/O. now: seconds of a clock that never goes back.

    Refusals with more than a minute between them are not in a row.
    """

    def __init__(self, now: Callable[[], float]) -> None:
        self._now = now
        self._last: float | None = None
        self._waits: Iterator[float] = _WAITS.delays()
        self._log_limiter = LogLimiter(quiet_s=_QUIET_S, now=now)

    def accepted(self) -> None:
        """A response was accepted, so that the next refusal is the first one again."""
        if self._last is not None:
            self._last = None
            self._log_limiter = LogLimiter(quiet_s=_QUIET_S, now=self._now)

    def refused(self, reason: str) -> Refusal:
        """A response was refused. Returns what follows."""
        now, last = self._now(), self._last
        self._last = now
        wait_s = 0.0
        if last is None or now - last >= _QUIET_S:
            self._waits = _WAITS.delays()
        else:
            wait_s = next(self._waits)
        return Refusal(self._log_limiter.due(reason, every_s=_LOGGED_EVERY_S), wait_s)
