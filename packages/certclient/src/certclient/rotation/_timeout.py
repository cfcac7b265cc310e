"""A bound on how long work may take, measured by a clock that tests can control."""

import asyncio
from collections.abc import Coroutine
from typing import TypeVar

from mesh_lifecycle import Clock

T = TypeVar("T")


async def within(
    clock: Clock, seconds: float, work: Coroutine[object, object, T], *, name: str
) -> T:
    """Return the result of `work`; raises TimeoutError after `seconds` of `clock`.

    asyncio.timeout does the same on the event loop's clock, which tests can't control. The
    TimeoutError has the cause that `work` gave its CancelledError.
    """
    task = asyncio.create_task(work, name=name)
    timer = asyncio.create_task(clock.sleep(seconds), name=f"timer of {name}")
    try:
        await asyncio.wait((task, timer), return_when=asyncio.FIRST_COMPLETED)
        if not task.done():
            task.cancel()
            await asyncio.wait((task,))
            raise TimeoutError from _cause_of_end(task)
        if task.cancelled():
            # Raised as it is, it would look like a cancellation of the caller.
            raise RuntimeError(f"{name} was cancelled from within")
        return task.result()
    finally:
        task.cancel()
        timer.cancel()
        await asyncio.gather(task, timer, return_exceptions=True)


def _cause_of_end(task: asyncio.Task[T]) -> BaseException | None:
    """Return the cause of a task's cancellation, or its error; None without either."""
    try:
        task.result()
    except asyncio.CancelledError as cancelled:
        return cancelled.__cause__
    except Exception as error:  # noqa: BLE001 - it is the cause of another
        return error
    return None
