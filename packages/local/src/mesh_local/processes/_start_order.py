"""The order in which many agents start: some at a time.

A start is a second of a processor's work. When fifty start at once, each waits for all others, and
the work is more: a processor that changes between them finds little of their code in its caches.
"""

import asyncio
import os
from contextlib import suppress

AT_ONCE = max(4, 2 * (os.cpu_count() or 1))
LONGEST_START_S = 10.0
"""An agent that is not ready by then may have to wait for others, which start then."""


class AgentStart:
    """An agent that is to start: it waits for `may_start`, and later is `ready`."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.may_start = asyncio.Event()
        self.ready = asyncio.Event()


class StartOrder:
    """Lets agents start in the order in which they are added."""

    def __init__(self, *, at_once: int = AT_ONCE, longest_s: float = LONGEST_START_S) -> None:
        self._slots = asyncio.Semaphore(at_once)
        self._longest_s = longest_s
        self._waiting: asyncio.Queue[AgentStart] = asyncio.Queue()

    def add(self, start: AgentStart) -> None:
        """Let an agent start when its turn has come."""
        self._waiting.put_nowait(start)

    async def run(self) -> None:
        """Let them start; at most `at_once` have begun and are not ready. Never returns."""
        async with asyncio.TaskGroup() as group:
            while True:
                start = await self._waiting.get()
                await self._slots.acquire()
                start.may_start.set()
                group.create_task(self._wait_ready(start), name=f"start of {start.name}")

    async def _wait_ready(self, start: AgentStart) -> None:
        with suppress(TimeoutError):
            async with asyncio.timeout(self._longest_s):
                await start.ready.wait()
        self._slots.release()
