"""Small disks for the programs that write: filled, and made read-only. They need root.

They are mounted in a mount namespace of the run's own (see `__main__`), so nothing of them is left.
"""

import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from mesh_chaos._parts import stopped

_FILL = ".filled-by-chaos"
_CHUNK = 1 << 16


class NoDisk(Exception):
    """It could not be done here; the text says why."""


def obstacle() -> str:
    """Return why there can be no disks of their own; empty if there can."""
    if os.geteuid() != 0:
        return "mounting a disk needs root"
    if not os.environ.get("MESH_CHAOS_OWN_MOUNTS"):
        return "there is no mount namespace of its own: run it as its README says"
    return ""


@contextmanager
def disk_at(path: Path, size: int) -> Iterator[None]:
    """Have a disk of so many bytes mounted at a path."""
    path.mkdir(mode=0o700, parents=True, exist_ok=True)
    _run("mount", "-t", "tmpfs", "-o", f"size={size},mode=700", "chaos", str(path))
    try:
        yield
    finally:
        _run("umount", "--lazy", str(path))


@contextmanager
def in_place_of(path: Path, file: Path) -> Iterator[None]:
    """Have another file in the place of one, for this run's own mount namespace."""
    _run("mount", "--bind", str(file), str(path))
    try:
        yield
    finally:
        _run("umount", "--lazy", str(path))


@contextmanager
def full(path: Path) -> Iterator[None]:
    """Have no byte free on the disk at a path."""
    file = path / _FILL
    try:
        with file.open("wb", buffering=0) as output:
            chunk = bytes(_CHUNK)
            try:
                while True:
                    output.write(chunk)
            except OSError:
                pass  # it is full
        yield
    finally:
        file.unlink(missing_ok=True)


@contextmanager
def read_only(path: Path, *writers: int) -> Iterator[None]:
    """Have the disk at a path read-only.

    writers: the processes that write there; they stand still for a moment, as the kernel refuses
    while a file is open for writing. Raises `NoDisk` if one is.
    """
    with stopped(*writers):
        done = _try("mount", "-o", "remount,ro", str(path))
    if done:
        raise NoDisk(f"{path.name} could not be made read-only: {done}")
    try:
        yield
    finally:
        _run("mount", "-o", "remount,rw", str(path))


def _run(*command: str) -> None:
    if said := _try(*command):
        raise NoDisk(f"{' '.join(command)}: {said}")


def _try(*command: str) -> str:
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    return "" if done.returncode == 0 else done.stderr.strip().replace("\n", " ")
