"""Kills the process groups of a mesh when this program has been killed."""

import asyncio
import logging
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path

log = logging.getLogger("mesh_local")

_PROCESS = Path(__file__).with_name("_guard_process.py")


class Guard:
    """Keeps a second process informed of every process group that runs, by its leader's pid."""

    def __init__(self, process_input: asyncio.StreamWriter) -> None:
        self._input = process_input

    def watch(self, pid: int) -> None:
        """Have this group killed if this program dies."""
        self._tell(f"+{pid}\n")

    def forget(self, pid: int) -> None:
        """No longer kill this group: it has ended, and its number may be used again."""
        self._tell(f"-{pid}\n")

    def clean(self, folder: Path) -> None:
        """Have what Envoys leave outside this state folder removed if this program dies."""
        self._tell(f"={folder}\n")

    def own_namespace(self) -> None:
        """Have all that is in this program's namespace of mounts, its own, end with the guard."""
        self._tell("@\n")

    def _tell(self, line: str) -> None:
        # A guard that was killed itself is needed only if this program is killed as well.
        with suppress(OSError, RuntimeError):
            self._input.write(line.encode())


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
