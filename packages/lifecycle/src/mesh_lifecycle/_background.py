"""A service coroutine that runs for as long as a block does.

asyncio's TaskGroup waits for its tasks; a service must instead be stopped when the block that
needs it ends, and must end that block when it stops by itself.
"""

import asyncio
from collections.abc import AsyncIterator, Coroutine
from contextlib import asynccontextmanager


class ServiceEnded(Exception):
    """A service that should run for ever returned."""


@asynccontextmanager
async def in_background(
    service: Coroutine[object, object, object], *, name: str
) -> AsyncIterator[asyncio.Task[object]]:
    """Run `service` beside the block, and cancel it when the block is left.

    If the service ends first, the block is cancelled at its next await, and what ended the
    service (its error, or `ServiceEnded` if it returned) is raised from the `async with`.
    """
    body = asyncio.current_task()
    if body is None:
        service.close()
        raise RuntimeError("in_background needs a running task")
    leaving = False
    interrupted = False
    ended_first = False

    def service_done(_: asyncio.Task[object]) -> None:
        nonlocal interrupted
        if not leaving:
            interrupted = True
            body.cancel()

    task = asyncio.create_task(service, name=name)
    task.add_done_callback(service_done)
    try:
        try:
            yield task
        finally:
            leaving = True
            ended_first = task.done()
            task.cancel()
            # Suspends even when the task is done, which takes in a cancel of ours still pending.
            await asyncio.wait([task])
    except asyncio.CancelledError:
        # Our own cancel is answered here; if others cancelled as well, theirs must go on.
        if not interrupted or body.uncancel() > 0:
            raise
    finally:
        if task.done() and not task.cancelled():
            task.exception()  # read, so that asyncio does not report it as well
    if ended_first:
        raise _end_of(task, name)


def _end_of(task: asyncio.Task[object], name: str) -> BaseException:
    if not task.cancelled() and (error := task.exception()) is not None:
        return error
    return ServiceEnded(f"{name} ended, though it should run until it is stopped")
