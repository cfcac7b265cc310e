"""The mesh's control plane, killed and started by the test alone."""

import asyncio
import os
import signal
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress

from mesh_local import RunningMesh
from mesh_testkit import until


def kill_control_plane(mesh: RunningMesh, pid: int | None = None) -> None:
    """Kill it, or the one with this pid that came back in its place."""
    pid = pid or mesh.control_plane.pid
    assert pid is not None
    os.kill(pid, signal.SIGKILL)


@asynccontextmanager
async def another_control_plane(mesh: RunningMesh) -> AsyncIterator[asyncio.subprocess.Process]:
    """Start what the mesh's control plane was, once more."""
    spec = mesh.control_plane.spec
    with spec.log.open("ab") as log:
        process = await asyncio.create_subprocess_exec(
            *spec.arguments,
            env=dict(spec.environment),
            cwd=spec.directory,
            stdin=asyncio.subprocess.DEVNULL,
            stdout=log,
            stderr=log,
        )
    try:
        yield process
    finally:
        with suppress(ProcessLookupError):
            process.kill()
        await process.wait()


async def until_listening(mesh: RunningMesh) -> float:
    """Wait until the secure port takes connections; returns the loop's time of it."""
    host, _, port = mesh.plan.discovery_address.rpartition(":")

    async def is_listening() -> bool:
        try:
            _, writer = await asyncio.open_connection(host, int(port))
        except OSError:
            return False
        writer.close()
        with suppress(OSError):
            await writer.wait_closed()
        return True

    await until(is_listening, what="the control plane to listen")
    return asyncio.get_running_loop().time()
