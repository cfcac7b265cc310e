"""What hot restart keeps outside the processes: a base id, and a piece of shared memory.

Envoys that hand over to each other share a base id, which names their sockets and a small file in
/dev/shm. The first chooses it and writes it down; nobody removes the files.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

from envoy_supervisor._files import remove

SHARED_MEMORY = Path("/dev/shm")  # noqa: S108 - where Envoy puts it

MAX_SOCKET_PATH = 107  # bytes, on Linux
_LONGEST_SOCKET_NAME = "_udp_parent_" + "9" * 20

# Envoy numbers its sockets in turn: more than so many processes are never in each other's way.
_EPOCHS_APART = 3

# The segment's size in the versions whose layout is known, and what its last word says.
_SIZE = 104
_INITIALIZING = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Sockets:
    """Where an Envoy and the next one talk: it is asked at `parent`, and answers to `child`."""

    parent: Path
    child: Path


def id_file(directory: Path, family: int) -> Path:
    """Where the first process of a family writes its base id."""
    return directory / f"base-id-{os.getpid()}-{family}"


def socket_path(file: Path) -> Path | None:
    """The beginning of the names of a family's sockets; None if its directory's path is too long.

    Envoy's own choice are abstract sockets, which have no permissions: whoever shares the network
    namespace (the application of a sidecar does) could take over the listeners or end Envoy.
    """
    if _is_short(file):
        return file
    try:
        path = Path(os.path.relpath(file))
    except OSError:  # the working directory is not there any more
        return None
    return path if _is_short(path) else None


def _is_short(path: Path) -> bool:
    return len(os.fsencode(path)) + len(_LONGEST_SOCKET_NAME) <= MAX_SOCKET_PATH


def read_base_id(path: Path) -> int | None:
    """The base id a family uses; None if it was never written."""
    try:
        return int(path.read_text())
    except (OSError, ValueError):
        return None


def sockets(file: Path, epoch: int) -> Sockets | None:
    """The sockets of the process of that epoch; None if the family has no files for them."""
    base_id, prefix = read_base_id(file), socket_path(file)
    if base_id is None or prefix is None:
        return None
    return Sockets(
        parent=Path(f"{prefix}_parent_{socket_number(base_id, epoch)}"),
        child=Path(f"{prefix}_child_{socket_number(base_id, epoch + 1)}"),
    )


def socket_number(base_id: int, epoch: int) -> int:
    """The number at the end of a socket's name, as Envoy computes it: 32 bits, sign-extended."""
    number = base_id * 10 & 0xFFFFFFFF
    if number >= 1 << 31:
        number += (1 << 64) - (1 << 32)
    return (number + epoch % _EPOCHS_APART) & 0xFFFFFFFFFFFFFFFF


def can_go_on(file: Path, *, shared_memory: Path = SHARED_MEMORY) -> bool:
    """Whether an Envoy can still become the next of that family, after all others have died."""
    base_id = read_base_id(file)
    if base_id is None or socket_path(file) is None:
        return False
    try:
        return _segment(base_id, shared_memory).stat().st_size == _SIZE
    except OSError:
        return False


def release(path: Path, *, shared_memory: Path = SHARED_MEMORY) -> None:
    """Remove what a family leaves behind. Only for families of which no process runs."""
    left = [*path.parent.glob(f"{path.name}_*"), path]
    if (base_id := read_base_id(path)) is not None:
        left.insert(0, _segment(base_id, shared_memory))
    for file in left:
        remove(file)


def release_stale(directory: Path, *, shared_memory: Path = SHARED_MEMORY) -> None:
    """Remove what supervisors left that were killed: their Envoys died with them.

    A file of our own process id is another's too: this runs before we start anything.
    """
    for path in directory.glob("base-id-*-*"):
        pid = path.name.split("-")[2]
        if pid == str(os.getpid()) or not (pid.isdigit() and Path("/proc", pid).exists()):
            release(path, shared_memory=shared_memory)


def release_directory(directory: Path, *, shared_memory: Path = SHARED_MEMORY) -> None:
    """Remove what supervisors left in a directory that no one uses any more, and in /dev/shm.

    Only the directory knows which piece of shared memory is whose: once it is deleted, no one does.
    """
    for path in directory.glob("base-id-*-*"):
        if path.is_file():
            release(path, shared_memory=shared_memory)


def forget_failed_child(path: Path, *, shared_memory: Path = SHARED_MEMORY) -> None:
    """Let the next child start after one that died while starting.

    A starting child marks the shared memory and takes the mark away when it serves. One that dies
    before leaves the mark, and Envoy then refuses every further child ("previous envoy process is
    still initializing") for as long as the parent lives. Only one child is ever started at a time
    here, so when the next one starts the mark is stale. Not needed any more once Envoy takes the
    mark away itself when it fails.
    """
    if (base_id := read_base_id(path)) is None:
        return
    try:
        with _segment(base_id, shared_memory).open("r+b") as segment:
            content = segment.read()
            if len(content) != _SIZE or int.from_bytes(content[:8], "little") != _SIZE:
                return
            flags = int.from_bytes(content[-8:], "little")
            segment.seek(_SIZE - 8)
            segment.write((flags & ~_INITIALIZING).to_bytes(8, "little"))
    except OSError:
        return


def _segment(base_id: int, shared_memory: Path) -> Path:
    return shared_memory / f"envoy_shared_memory_{base_id * 10}"
