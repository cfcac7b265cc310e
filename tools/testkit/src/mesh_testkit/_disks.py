"""A file system of a test's own, so small that it is easily filled, and that can be read-only."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

_BLOCK_BYTES = 4096


class SmallDisk:
    """A mounted file system. path: where."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._filler = path / "filler"

    def fill(self, *, but_bytes: int = 0) -> None:
        """Leave room for no more than so many bytes, in whole blocks."""
        with self._filler.open("wb", buffering=0) as file:
            try:
                while file.write(bytes(_BLOCK_BYTES)):
                    pass
            except OSError:
                pass  # it is full
            file.truncate(max(0, file.tell() - but_bytes // _BLOCK_BYTES * _BLOCK_BYTES))

    def free(self) -> None:
        """Make room again."""
        self._filler.unlink()

    def make_read_only(self) -> None:
        """Let nothing be written."""
        self._remount("ro")

    def make_writable(self) -> None:
        """Let files be written again."""
        self._remount("rw")

    def _remount(self, mode: str) -> None:
        subprocess.run(["mount", "-o", f"remount,{mode}", self.path], check=True)


@contextmanager
def small_disk(path: Path, *, kib: int = 256) -> Iterator[SmallDisk]:
    """Mount a file system of so many KiB on a new directory, mode 0700.

    Skips the test where the user may not mount one.
    """
    path.mkdir(mode=0o700)
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", f"size={kib}k,mode=700", "tmpfs", path],
        capture_output=True,
        text=True,
        check=False,
    )
    if mounted.returncode != 0:
        pytest.skip(f"a file system cannot be mounted here: {mounted.stderr.strip()}")
    try:
        yield SmallDisk(path)
    finally:
        subprocess.run(["umount", path], check=True)
