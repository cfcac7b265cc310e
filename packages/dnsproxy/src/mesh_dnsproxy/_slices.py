"""Long work on the loop's own thread, in slices short enough that queries don't wait.

A thread of its own would not do: it would hold the interpreter for 5 ms at a time, and each packet
that is received gives the interpreter away and has to wait for it.
"""

import asyncio
import time
from collections.abc import Generator
from typing import TypeVar

SLICE_S = 0.0003
_STEPS_BETWEEN_LOOKS = 4

T = TypeVar("T")


async def run_in_slices(work: Generator[None, None, T]) -> T:
    """Do the steps of the work, and let the loop go on in between; returns what it returns."""
    try:
        while True:
            until = time.perf_counter() + SLICE_S
            while time.perf_counter() < until:
                for _ in range(_STEPS_BETWEEN_LOOKS):
                    next(work)
            await asyncio.sleep(0)
    except StopIteration as finished:
        result: T = finished.value
        return result
    finally:
        work.close()
