"""Clocks for real Envoys, which take their own time, under supervisors that are not to hurry."""

from __future__ import annotations

import asyncio

from mesh_lifecycle import SystemClock


class StandingClock(SystemClock):
    """Stands at a time until it is set to another; pauses between two looks are real."""

    def __init__(self) -> None:
        self.at = 0.0

    def monotonic(self) -> float:
        return self.at


class LongWaits(SystemClock):
    """A wait of an hour is over when it is said to be; all else takes its time."""

    LONG_S = 3600.0

    def __init__(self) -> None:
        self._ahead_s = 0.0
        self._over = asyncio.Event()

    def monotonic(self) -> float:
        return super().monotonic() + self._ahead_s

    async def sleep(self, seconds: float) -> None:
        await (self._over.wait() if seconds > self.LONG_S / 2 else super().sleep(seconds))

    def end(self) -> None:
        """End the waits of now."""
        self._ahead_s += 2 * self.LONG_S
        self._over.set()
        self._over = asyncio.Event()
