"""A task that a mesh is entered and left in, whichever tasks want it to.

pytest-asyncio runs the two halves of a fixture in two tasks, and the parts of a mesh must be left
by the task that entered them.
"""

import asyncio
from contextlib import AbstractAsyncContextManager

from mesh_local.testing._mesh import Mesh


class MeshTask:
    """Keeps a mesh running from `start` until `stop`."""

    def __init__(self, mesh: AbstractAsyncContextManager[Mesh]) -> None:
        self._mesh = mesh
        self._stop = asyncio.Event()
        self._task: asyncio.Task[None] | None = None

    async def start(self) -> Mesh:
        """Enter the mesh; returns when it is ready, and raises what kept it from it."""
        started: asyncio.Future[Mesh] = asyncio.get_running_loop().create_future()
        self._task = asyncio.create_task(self._run(started), name="mesh")
        try:
            await asyncio.wait((started, self._task), return_when=asyncio.FIRST_COMPLETED)
        except asyncio.CancelledError:
            self._task.cancel()
            await asyncio.wait((self._task,))
            raise
        if not started.done():
            await self._task
        return started.result()

    async def stop(self) -> None:
        """Leave the mesh; raises what went wrong in it."""
        self._stop.set()
        if self._task is not None:
            await self._task

    async def _run(self, started: "asyncio.Future[Mesh]") -> None:
        async with self._mesh as mesh:
            started.set_result(mesh)
            await self._stop.wait()
