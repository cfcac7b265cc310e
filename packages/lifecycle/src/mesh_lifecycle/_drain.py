"""A bound on a piece of shutting down that must not hold up the rest."""

import asyncio
import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

log = logging.getLogger(__name__)


class Draining:
    """How much of the time is left, and whether it ran out."""

    def __init__(self, deadline: float) -> None:
        self._deadline = deadline
        self.expired = False

    @property
    def remaining_s(self) -> float:
        """Seconds left, never below zero; hand it on to what is stopped next."""
        if self.expired:  # timers may fire a hair before their time
            return 0.0
        return max(0.0, self._deadline - asyncio.get_running_loop().time())


@asynccontextmanager
async def drain_within(timeout_s: float, *, what: str) -> AsyncIterator[Draining]:
    """Run the block for at most `timeout_s` seconds, then cancel it, warn and go on.

    Unlike `asyncio.timeout`, running out is not an error: the value's `expired` tells. A
    cancellation from outside passes through.
    """
    draining = Draining(asyncio.get_running_loop().time() + timeout_s)
    timeout = asyncio.timeout(timeout_s)
    try:
        async with timeout:
            yield draining
    except TimeoutError:
        if not timeout.expired():
            raise
        draining.expired = True
        log.warning("did not stop in time, going on", extra={"what": what, "timeout_s": timeout_s})
