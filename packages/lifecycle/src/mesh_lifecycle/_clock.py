"""The clock as a parameter, so that tests of timing need not wait."""

import asyncio
import time
from typing import Protocol


class Clock(Protocol):
    """Gives a service the time, and lets it wait."""

    def now(self) -> float:
        """Wall-clock time in seconds since the Unix epoch; may jump."""

    def monotonic(self) -> float:
        """Seconds on a clock that never goes back; its zero is arbitrary."""

    async def sleep(self, seconds: float) -> None:
        """Wait for at least `seconds`; zero or less only lets other tasks run."""


class SystemClock:
    """The machine's own clocks."""

    def now(self) -> float:
        return time.time()

    def monotonic(self) -> float:
        return time.monotonic()

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(max(0.0, seconds))
