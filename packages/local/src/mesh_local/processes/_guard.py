"""Makes sure that nothing which a mesh's processes start outlives this program."""

import asyncio
import logging
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path

log = logging.getLogger("mesh_local")

_PROCESS = Path(__file__).with_name("_guard_process.py")


class Guard:
    """Told of every process group that runs, by its leader's pid."""

    def __init__(self, told: asyncio.StreamWriter) -> None:
        self._told = told

    def watch(self, pid: int) -> None:
        """Have this group killed if this program dies."""
        self._tell(f"+{pid}\n")

    def forget(self, pid: int) -> None:
        """Say that the group is gone; its number may become another's."""
        self._tell(f"-{pid}\n")

    def _tell(self, line: str) -> None:
        # A guard that somebody killed is missed only if this program is killed as well.
        with suppress(OSError, RuntimeError):
            self._told.write(line.encode())


@asynccontextmanager
async def guarding() -> AsyncIterator[Guard]:
    """Run a guard beside the block; it ends by itself when the block does."""
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        "-IS",
        str(_PROCESS),
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.DEVNULL,
        stderr=asyncio.subprocess.DEVNULL,
        start_new_session=True,
    )
    assert process.stdin is not None  # noqa: S101 - a pipe was asked for
    try:
        yield Guard(process.stdin)
    finally:
        process.stdin.close()
        with suppress(OSError):
            await process.stdin.wait_closed()
        await process.wait()
