"""Runs long work on the event loop in slices, so short that queries don't wait.

A thread of its own would be slower: it would hold the interpreter lock for 5 ms at a time, and each
packet that is received releases the lock and would have to wait for it.
"""

import asyncio
import time
from collections.abc import Generator
from typing import TypeVar

SLICE_S = 0.0003
_STEPS_BETWEEN_CLOCK_READS = 4

T = TypeVar("T")


async def run_in_slices(work: Generator[None, None, T]) -> T:
    """Run a generator, with the event loop in between, and return its result."""
    try:
        while True:
            until = time.perf_counter() + SLICE_S
            while time.perf_counter() < until:
                for _ in range(_STEPS_BETWEEN_CLOCK_READS):
                    next(work)
            await asyncio.sleep(0)
    except StopIteration as finished:
        result: T = finished.value
        return result
    finally:
        work.close()
