"""Refusals of one type by the agent, one after the other, as a control plane may make them.

Some control planes answer each NACK at once with the same response. Envoy answers it at once, too,
and both go on for ever. The agent answers the first refusal at once, and waits longer and longer
with those that follow.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from mesh_lifecycle import Backoff

_WAITS = Backoff(initial_s=0.1, maximum_s=10.0, multiplier=2.0, jitter=0.2)
_QUIET_S = 60.0


class RefusalsInARow:
    """Of one type; synchronous, does no I/O. now: seconds of a clock that never goes back.

    Refusals with more than a minute between them are not in a row.
    """

    def __init__(self, now: Callable[[], float]) -> None:
        self._now = now
        self._last: float | None = None
        self._waits: Iterator[float] = _WAITS.delays()

    def on_ack(self) -> None:
        """A response was accepted, so that the next refusal is the first one again."""
        self._last = None

    def on_nack(self) -> float:
        """A response was refused. Returns for how many seconds the NACK is not sent."""
        now, last = self._now(), self._last
        self._last = now
        if last is None or now - last >= _QUIET_S:
            self._waits = _WAITS.delays()
            return 0.0
        return next(self._waits)
