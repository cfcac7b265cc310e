"""The rate of new streams, or of the requests of one stream."""

from __future__ import annotations

from mesh_lifecycle import Clock


class RateLimit:
    """Admits so many a second, one at a time; what comes too early waits, but not too long."""

    __slots__ = ("_clock", "_interval_s", "_longest_wait_s", "_next_at")

    def __init__(self, per_second: float | None, *, longest_wait_s: float, clock: Clock) -> None:
        self._interval_s = 1 / per_second if per_second else 0.0
        self._longest_wait_s = longest_wait_s
        self._clock = clock
        self._next_at = 0.0

    async def admit(self) -> bool:
        """Wait until it is time; return False if that would take too long."""
        now = self._clock.monotonic()
        at = max(self._next_at, now)
        if at - now > self._longest_wait_s:
            return False
        self._next_at = at + self._interval_s
        if at > now:
            await self._clock.sleep(at - now)
        return True
