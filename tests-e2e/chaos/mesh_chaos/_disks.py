"""Small disks for the programs that write: filled, and made read-only. They need root.

They are mounted in a mount namespace of the run's own (see `__main__`), so nothing of them is left.
"""

import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from mesh_chaos._parts import stopped
from mesh_testkit import SmallDisk


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
def in_place_of(path: Path, file: Path) -> Iterator[None]:
    """Have another file in the place of one, for this run's own mount namespace."""
    _run("mount", "--bind", str(file), str(path))
    try:
        yield
    finally:
        _run("umount", "--lazy", str(path))


@contextmanager
def full(disk: SmallDisk) -> Iterator[None]:
    """Have no byte free on a disk."""
    disk.fill()
    try:
        yield
    finally:
        disk.free()


@contextmanager
def read_only(disk: SmallDisk, *writers: int) -> Iterator[None]:
    """Have a disk read-only.

    writers: the processes that write there; they stand still for a moment, as the kernel refuses
    while a file is open for writing. Raises `NoDisk` if one is.
    """
    with stopped(*writers):
        try:
            disk.make_read_only()
        except subprocess.CalledProcessError as error:
            raise NoDisk(f"{disk.path.name} could not be made read-only: {error}") from None
    try:
        yield
    finally:
        disk.make_writable()


def _run(*command: str) -> None:
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise NoDisk(f"{' '.join(command)}: {done.stderr.strip()}")
