"""Looks how much room the file systems have that the agent writes to."""

import os
from functools import partial
from pathlib import Path

from mesh_doctor._config import WrittenDirectory
from mesh_doctor._observed import SeenDisk
from mesh_filewatch import run_in_thread


async def seen_disk(directory: WrittenDirectory, *, timeout_s: float) -> SeenDisk:
    """Return the room where a directory is; where it is to be created, that of the one above."""
    try:
        found, file_system = await run_in_thread(
            partial(_room, directory.path), path=directory.path, timeout_s=timeout_s
        )
    except OSError as error:  # also one that hangs
        return SeenDisk(directory=directory, reason=error.strerror or str(error))
    return SeenDisk(
        directory=directory,
        file_system=file_system,
        # Some file systems count neither (a size of nothing), or no files.
        free_bytes=found.f_bavail * found.f_frsize if found.f_blocks else None,
        free_files=found.f_favail if found.f_files else None,
        read_only=bool(found.f_flag & os.ST_RDONLY),
    )


def _room(path: Path) -> tuple[os.statvfs_result, int]:
    for each in (path, *path.absolute().parents):
        try:
            return os.statvfs(each), each.stat().st_dev
        except FileNotFoundError:
            continue
    return os.statvfs("/"), Path("/").stat().st_dev
