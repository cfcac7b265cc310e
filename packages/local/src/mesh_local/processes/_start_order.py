"""The order in which many agents start: some at a time.

A start is a second of a processor's work. When fifty start at once, each waits for all others, and
the work is more: a processor that changes between them finds little of their code in its caches.
"""

import asyncio
import os
from collections.abc import Sequence
from contextlib import suppress

from mesh_local.processes._specs import ProcessSpec

AT_ONCE = max(4, 2 * (os.cpu_count() or 1))
LONGEST_START_S = 10.0
"""An agent that is not ready by then may have to wait for others, which start then."""


class AgentStart:
    """An agent that is to start: it waits for `may_start`, and later is `ready`."""

    def __init__(self, spec: ProcessSpec, *, ready: asyncio.Event) -> None:
        self.spec = spec
        self.ready = ready
        self.may_start = asyncio.Event()


async def start_some_at_a_time(
    starts: Sequence[AgentStart], *, at_once: int = AT_ONCE, longest_s: float = LONGEST_START_S
) -> None:
    """Let them start in order; at most `at_once` have begun and are not ready."""
    slots = asyncio.Semaphore(at_once)

    async def wait_ready(start: AgentStart) -> None:
        with suppress(TimeoutError):
            async with asyncio.timeout(longest_s):
                await start.ready.wait()
        slots.release()

    async with asyncio.TaskGroup() as group:
        for each in starts:
            await slots.acquire()
            each.may_start.set()
            group.create_task(wait_ready(each), name=f"start of {each.spec.name}")
