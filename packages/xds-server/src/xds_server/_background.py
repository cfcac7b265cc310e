"""A service coroutine that runs for as long as a block does, and ends the block if it fails."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Coroutine
from contextlib import asynccontextmanager


@asynccontextmanager
async def in_background(
    service: Coroutine[object, object, None], *, name: str
) -> AsyncIterator[None]:
    """Run `service` beside the block; its error cancels the block and is raised from it."""
    body = asyncio.current_task()
    if body is None:
        service.close()
        raise RuntimeError("in_background needs a running task")
    leaving = interrupted = False

    def ended(_task: asyncio.Task[None]) -> None:
        nonlocal interrupted
        if not leaving:
            interrupted = True
            body.cancel()

    task = asyncio.create_task(service, name=name)
    task.add_done_callback(ended)
    try:
        yield
    except asyncio.CancelledError:
        # Our own cancel is answered below; if others cancelled as well, theirs goes on.
        if not interrupted or body.uncancel() > 0:
            raise
    finally:
        leaving = True
        task.cancel()
        await asyncio.wait([task])
        error = None if task.cancelled() else task.exception()
        del task  # With it, the error would hold this frame and this frame the error.
    if interrupted:
        try:
            raise error or RuntimeError(f"{name} ended")
        finally:
            del error
