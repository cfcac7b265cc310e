"""Replaces several files one after the other, each by a rename."""

import os
import tempfile
from collections.abc import Mapping
from pathlib import Path

from mesh_filewatch import UnfitFile, read_bytes


def replace_files(directory: Path, contents: Mapping[str, bytes], *, mode: int) -> tuple[str, ...]:
    """Replace the files whose content differs; return their names. Raises OSError.

    All are on the disk before the first is renamed: on a disk with room for the key and not for
    the chain, both stay the old ones, which fit each other.
    """
    staged: dict[Path, Path] = {}
    try:
        for name, content in contents.items():
            path = directory / name
            # A link leads into a generation, which is only kept up to date with `atomic`.
            if not path.is_symlink() and has_content(path, content):
                path.chmod(mode)
            else:
                staged[path] = _staged(path, content, mode)
        for path, temporary in staged.items():
            temporary.replace(path)
    except BaseException:
        for temporary in staged.values():
            temporary.unlink(missing_ok=True)
        raise
    return tuple(path.name for path in staged)


def _staged(path: Path, content: bytes, mode: int) -> Path:
    """Write a file that is to become `path`; return where it is. Raises OSError."""
    # mkstemp creates the file with mode 0600, whatever the umask.
    descriptor, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    temporary = Path(name)
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        temporary.chmod(mode)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise
    return temporary


def has_content(path: Path, content: bytes) -> bool:
    """Return whether `path` is a regular file of exactly this content. Raises OSError."""
    try:
        return read_bytes(path, max_bytes=len(content)) == content
    except (FileNotFoundError, UnfitFile):
        return False
