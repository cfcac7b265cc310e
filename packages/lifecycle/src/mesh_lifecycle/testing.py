"""A clock that tests control."""

import asyncio
import heapq
import itertools


class ManualClock:
    """A `Clock` for tests: `advance` moves both clocks, `jump` the wall clock alone."""

    def __init__(self, now: float = 1_700_000_000.0) -> None:
        self._now = now
        self._monotonic = 0.0
        self._order = itertools.count()
        self._sleepers: list[tuple[float, int, asyncio.Future[None]]] = []

    def now(self) -> float:
        return self._now

    def monotonic(self) -> float:
        return self._monotonic

    @property
    def sleeping(self) -> tuple[float, ...]:
        """The seconds that each sleeper has still to wait, soonest first."""
        waiting = sorted(entry for entry in self._sleepers if not entry[2].done())
        return tuple(wake_at - self._monotonic for wake_at, _, _ in waiting)

    async def sleep(self, seconds: float) -> None:
        if seconds <= 0:
            await asyncio.sleep(0)
            return
        woken = asyncio.get_running_loop().create_future()
        heapq.heappush(self._sleepers, (self._monotonic + seconds, next(self._order), woken))
        await woken

    def jump(self, seconds: float) -> None:
        """Set the wall clock forward or back, as NTP or an operator does; wakes no sleeper."""
        self._now += seconds

    async def advance(self, seconds: float) -> None:
        """Move the clock by `seconds`, waking each sleeper at its time and letting it run."""
        end = self._monotonic + seconds
        await self.settle()
        while self._sleepers and self._sleepers[0][0] <= end:
            wake_at, _, woken = heapq.heappop(self._sleepers)
            self._move_to(max(wake_at, self._monotonic))
            if not woken.done():
                woken.set_result(None)
            await self.settle()
        self._move_to(end)
        await self.settle()

    async def settle(self) -> None:
        """Let every ready task run several steps, so that woken code reaches its next wait."""
        for _ in range(20):
            await asyncio.sleep(0)

    def _move_to(self, monotonic: float) -> None:
        self._now += monotonic - self._monotonic
        self._monotonic = monotonic
