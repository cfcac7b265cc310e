"""The files of a hot restart: the base id, the sockets' names, and a piece of shared memory.

Envoys that hand over to each other share a base id, which names their sockets and a small file in
/dev/shm. The first Envoy chooses the base id and writes it to a file. No Envoy removes the files.
"""

from __future__ import annotations

import os
from pathlib import Path

import msgspec

from envoy_supervisor._files import remove

SHARED_MEMORY = Path("/dev/shm")  # noqa: S108 - where Envoy puts it

MAX_SOCKET_PATH = 107  # bytes, on Linux
_LONGEST_SOCKET_NAME = "_udp_parent_" + "9" * 20

# Envoy numbers its sockets modulo this: no more processes of one base id ever run at once.
_EPOCHS_APART = 3

# The segment's size in the versions whose layout is known, and a flag in its last word.
_SIZE = 104
_INITIALIZING = 1


class HotRestartSockets(msgspec.Struct, frozen=True, kw_only=True):
    """The paths at which a parent is asked (`parent`) and its child receives answers (`child`)."""

    parent: Path
    child: Path


def id_file(directory: Path, series: int) -> Path:
    """Return where the first process of a series writes its base id."""
    return directory / f"base-id-{os.getpid()}-{series}"


def socket_path(file: Path) -> Path | None:
    """Return the beginning of a series' socket names; None if the directory's path is too long.

    Envoy's own choice are abstract sockets, which have no permissions: every process of the network
    namespace (such as a sidecar's application) could take over the listeners or end Envoy.
    """
    if _is_short(file):
        return file
    try:
        path = Path(os.path.relpath(file))
    except OSError:  # the working directory has been removed
        return None
    return path if _is_short(path) else None


def _is_short(path: Path) -> bool:
    return len(os.fsencode(path)) + len(_LONGEST_SOCKET_NAME) <= MAX_SOCKET_PATH


def read_base_id(path: Path) -> int | None:
    """Return the base id that a series uses; None if it was never written."""
    try:
        return int(path.read_text())
    except (OSError, ValueError):
        return None


def hot_restart_sockets(file: Path, epoch: int) -> HotRestartSockets | None:
    """Return the sockets of the process of that epoch; None if the series has no files."""
    base_id, prefix = read_base_id(file), socket_path(file)
    if base_id is None or prefix is None:
        return None
    return HotRestartSockets(
        parent=Path(f"{prefix}_parent_{socket_number(base_id, epoch)}"),
        child=Path(f"{prefix}_child_{socket_number(base_id, epoch + 1)}"),
    )


def socket_number(base_id: int, epoch: int) -> int:
    """Return the number in a socket's name, as Envoy computes it: 32 bits, sign-extended."""
    number = base_id * 10 & 0xFFFFFFFF
    if number >= 1 << 31:
        number += (1 << 64) - (1 << 32)
    return (number + epoch % _EPOCHS_APART) & 0xFFFFFFFFFFFFFFFF


def can_continue_series(file: Path, *, shared_memory: Path = SHARED_MEMORY) -> bool:
    """Return whether an Envoy can become the next epoch after all others of its series died."""
    base_id = read_base_id(file)
    if base_id is None or socket_path(file) is None:
        return False
    try:
        return _segment(base_id, shared_memory).stat().st_size == _SIZE
    except OSError:
        return False


def release_series(path: Path, *, shared_memory: Path = SHARED_MEMORY) -> None:
    """Remove the files of a series. Only for a series of which no process runs."""
    files = [*path.parent.glob(f"{path.name}_*"), path]
    if (base_id := read_base_id(path)) is not None:
        files.insert(0, _segment(base_id, shared_memory))
    for file in files:
        remove(file)


def release_stale(directory: Path, *, shared_memory: Path = SHARED_MEMORY) -> None:
    """Remove the files of supervisors that were killed: their Envoys died with them.

    Call it before any Envoy is started: a file with this process' id is an earlier process' then.
    """
    for path in directory.glob("base-id-*-*"):
        pid = path.name.split("-")[2]
        if pid == str(os.getpid()) or not (pid.isdigit() and Path("/proc", pid).exists()):
            release_series(path, shared_memory=shared_memory)


def release_directory(directory: Path, *, shared_memory: Path = SHARED_MEMORY) -> None:
    """Remove the files of supervisors, also in /dev/shm, for a directory that is no longer used.

    Call it before the directory is deleted: only its files tell which shared memory is theirs.
    """
    for path in directory.glob("base-id-*-*"):
        if path.is_file():
            release_series(path, shared_memory=shared_memory)


def clear_failed_child_mark(path: Path, *, shared_memory: Path = SHARED_MEMORY) -> None:
    """Lets the next child start after one that died while starting.

    A starting child marks the shared memory and takes the mark away when it serves. A child that
    dies before leaves the mark, and Envoy then refuses every further child ("previous envoy process
    is still initializing") for as long as the parent lives. Only one child is started at a time
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
