"""Recognizes files that this process wrote itself, which must never be its input.

Taking our own output as input would make us believe for ever what we wrote last.
"""

import os
from pathlib import Path

FileNumber = tuple[int, int]
"""Device and inode."""


class OwnOutput:
    """Knows which paths lead to files in the output directory, or did so before."""

    def __init__(self, directory: Path | None) -> None:
        """directory: where our own output is written; None if nowhere."""
        self._directory = directory
        self._hard_links: dict[Path, FileNumber] = {}

    def has(self, path: Path) -> bool:
        """Return whether the path leads into the output directory, through links of any kind."""
        if self._directory is None or (directory := _number(self._directory)) is None:
            return False
        if directory in map(_number, Path(os.path.realpath(path)).parents):
            return True
        number = _number(path)
        # A hard link still leads to our old file, with its inode, after we have replaced that file.
        if number is not None and (
            number == self._hard_links.get(path)
            or number in map(_number, self._directory.glob("*.pem"))
        ):
            self._hard_links[path] = number
            return True
        self._hard_links.pop(path, None)
        return False


def _number(path: Path) -> FileNumber | None:
    try:
        status = path.stat()
    except OSError:
        return None
    return status.st_dev, status.st_ino
