"""A time limit for one step of a shutdown, so that it does not delay the others."""

import asyncio
import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

log = logging.getLogger(__name__)


class Draining:
    """The time that is left for draining, and whether it has run out."""

    def __init__(self, deadline: float) -> None:
        self._deadline = deadline
        self.expired = False

    @property
    def remaining_s(self) -> float:
        """The seconds that are left, never below zero; also a limit for the next steps."""
        if self.expired:  # a timer may fire slightly early
            return 0.0
        return max(0.0, self._deadline - asyncio.get_running_loop().time())


@asynccontextmanager
async def drain_within(timeout_s: float, *, what: str) -> AsyncIterator[Draining]:
    """Run the block for at most `timeout_s` seconds, then cancel it, log a warning and go on.

    Unlike with `asyncio.timeout`, the end of the time is not an error; `expired` is then True. A
    cancellation from outside is not caught.
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
