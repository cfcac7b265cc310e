"""Calls take turns: those that come together are worked on one right after the other.

What gRPC runs between two calls evicts the code and tables of a signature from the processor's
caches: in the middle of a call it takes twice as long as right after another one. So under load as
many calls are gathered as came together the last time. A caller on its own never waits for others,
but for a rare try that finds out whether there are any.
"""

import asyncio
import time
from collections import deque
from collections.abc import Callable

MOST = 16
AGAIN_S = 0.01  # for those who came together last time: they are likely to come
TRY_S = 0.003
_TRY_EVERY_ALONE = 64
_TRY_EVERY = 16
_IDLE_S = 0.02


class Pace:
    """For how many calls it is worth waiting: as many as there were last time."""

    def __init__(self) -> None:
        self._last = 1
        self._turns = 0
        self._ended = float("-inf")

    def wanted(self, now: float) -> tuple[int, float]:
        """How many calls to gather, and for how long, now that one has come to an empty queue."""
        if now - self._ended > _IDLE_S:
            self._last, self._turns = 1, 0
        self._turns += 1
        if self._turns >= (_TRY_EVERY_ALONE if self._last == 1 else _TRY_EVERY):
            self._turns = 0
            return min(max(2 * self._last, 4), MOST), TRY_S
        return self._last, AGAIN_S

    def gathered(self, count: int, now: float) -> None:
        """Take note of how many there were in the end."""
        self._last = max(1, min(count, MOST))
        self._ended = now


class Turns:
    """Lets calls go on in the order they came, those that were gathered right after each other."""

    def __init__(self, *, monotonic: Callable[[], float] = time.monotonic) -> None:
        """`monotonic` tells how close together calls come."""
        self._monotonic = monotonic
        self._pace = Pace()
        self._waiting: deque[asyncio.Future[None]] = deque()
        self._wanted = 1
        self._timer: asyncio.TimerHandle | None = None
        self._releasing = False

    async def wait(self) -> None:
        """Wait for a turn. What follows up to the next await is done in one go with the others'."""
        loop = asyncio.get_running_loop()
        turn: asyncio.Future[None] = loop.create_future()
        self._waiting.append(turn)
        if not self._releasing:
            if len(self._waiting) == 1:
                self._wanted, wait_s = self._pace.wanted(self._monotonic())
                self._timer = loop.call_later(wait_s, self._begin, loop)
            if len(self._waiting) >= self._wanted:
                # Not at once: those who come in this round of the loop are of the same turn. The
                # timer would begin it a second time if the round takes longer than that.
                self._releasing = True
                if self._timer is not None:
                    self._timer.cancel()
                loop.call_soon(self._begin, loop)
        await turn

    def _begin(self, loop: asyncio.AbstractEventLoop) -> None:
        self._pace.gathered(len(self._waiting), self._monotonic())
        self._release(loop)

    def _release(self, loop: asyncio.AbstractEventLoop) -> None:
        for _ in range(min(len(self._waiting), MOST)):
            turn = self._waiting.popleft()
            if not turn.done():  # else its caller has gone
                turn.set_result(None)
        self._releasing = bool(self._waiting)  # the rest when other work has been let in
        if self._releasing:
            loop.call_soon(self._release, loop)
