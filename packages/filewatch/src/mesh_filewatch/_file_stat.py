"""The parts of a file's stat(2) that differ when the file was replaced or written."""

import os
from typing import NamedTuple


class FileStat(NamedTuple):
    """Identifies a file and its state. If it differs, the file's content may differ too."""

    device: int
    inode: int
    size: int
    modified_ns: int
    changed_ns: int


def file_stat(path: str | os.PathLike[str]) -> FileStat | None:
    """Return the state of the file at `path`, links followed; None if there is no file to see."""
    try:
        status = os.stat(path)  # noqa: PTH116 - as Path.stat, without its cost
    except OSError:
        return None
    return FileStat(
        status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns
    )
