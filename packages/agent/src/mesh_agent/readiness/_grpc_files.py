"""Readiness of an agent without Envoy: the files that its application starts from are there."""

import os
from functools import partial
from pathlib import Path

from mesh_filewatch import ReadTimedOut, run_in_thread, watching
from mesh_lifecycle import Condition


async def watch_files(paths: tuple[Path, ...], ready: Condition) -> None:
    """Set `ready` while all files are there, else unset it with their names; never returns."""
    async with watching() as watch:
        while True:
            await watch.follow(paths)
            faults = [fault for path in paths if (fault := await _fault(path)) is not None]
            if faults:
                ready.unset(", ".join(faults))
            else:
                ready.set()
            await watch.wait()


async def _fault(path: Path) -> str | None:
    try:
        there = await run_in_thread(partial(os.path.isfile, path), path=path, key=("is file", path))
    except ReadTimedOut as error:
        return str(error)
    return None if there else f"{path} not there"
