"""Work of many calls, done in turns: what arrives together is done one right after the other.

What gRPC runs between two calls evicts the code and tables of a signature from the processor's
caches: in the middle of a call it takes twice as long as right after another one. So under load
requests are gathered for a moment. A caller on its own never waits for others, but for a rare try
that finds out whether there are any.
"""

import asyncio
import time
from collections import deque
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")

GATHER_S = 0.003
_TURN_S = 0.005  # then the other work of the event loop is let in
_WORTHWHILE = 3
_TRY_EVERY = 32
_IDLE_S = 0.02


class Pace:
    """How long to gather before the next turn: nothing, unless the last gathering was worth it."""

    def __init__(self) -> None:
        self._gathering = False
        self._since_try = 0
        self._last = float("-inf")

    def wait_s(self, now: float) -> float:
        """The time to wait for further work, now that some has come to an empty queue."""
        if now - self._last > _IDLE_S:
            self._gathering, self._since_try = False, 0
        self._since_try += 1
        if self._since_try >= _TRY_EVERY:
            self._gathering, self._since_try = True, 0
        return GATHER_S if self._gathering else 0.0

    def done(self, count: int, now: float) -> None:
        """Take note of a turn that did `count` pieces of work."""
        self._gathering = self._gathering and count >= _WORTHWHILE
        if self._gathering:
            self._since_try = 0
        self._last = now


class Turns:
    """Does work in the event loop, in the order it was given; what is cancelled is left out."""

    def __init__(self, *, monotonic: Callable[[], float] = time.monotonic) -> None:
        """`monotonic` tells when a turn is over."""
        self._monotonic = monotonic
        self._pace = Pace()
        self._waiting: deque[Callable[[], None]] = deque()

    async def do(self, work: Callable[[], T]) -> T:
        """What `work` returns or raises, in a turn soon to come."""
        loop = asyncio.get_running_loop()
        done: asyncio.Future[T] = loop.create_future()

        def step() -> None:
            if done.done():  # its caller has gone
                return
            try:
                done.set_result(work())
            except Exception as error:  # noqa: BLE001  (it goes to the one who waits)
                done.set_exception(error)

        if not self._waiting:
            wait_s = self._pace.wait_s(self._monotonic())
            if wait_s:
                loop.call_later(wait_s, self._turn, loop)
            else:
                loop.call_soon(self._turn, loop)
        self._waiting.append(step)
        return await done

    def _turn(self, loop: asyncio.AbstractEventLoop) -> None:
        now = self._monotonic()
        end, count = now + _TURN_S, 0
        while self._waiting and (count == 0 or now < end):
            self._waiting.popleft()()
            count += 1
            now = self._monotonic()
        self._pace.done(count, now)
        if self._waiting:
            loop.call_soon(self._turn, loop)
