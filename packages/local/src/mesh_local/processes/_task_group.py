"""Tasks that run beside a block, and that may be added while it runs."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from mesh_lifecycle import in_background


@asynccontextmanager
async def tasks_beside(name: str) -> AsyncIterator[asyncio.TaskGroup]:
    """Yield a task group; leaving the block cancels its tasks, instead of waiting for them.

    An error of a task cancels the block, and is raised from it in an exception group.
    """
    opened: asyncio.Future[asyncio.TaskGroup] = asyncio.get_running_loop().create_future()
    async with in_background(_keep_open(opened), name=name):
        yield await opened


async def _keep_open(opened: "asyncio.Future[asyncio.TaskGroup]") -> None:
    async with asyncio.TaskGroup() as tasks:
        opened.set_result(tasks)
        await asyncio.Event().wait()
