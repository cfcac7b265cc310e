"""Reads a regular file so that its content is complete and of one moment.

A user or a peer named the path, so it may lead to a FIFO without a writer, to a device, to a file
without an end, or to a file that is being written.
"""

import os
import stat
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

from mesh_filewatch._errors import FileKeepsChanging, FileTooLarge, NotRegularFile

_FLAGS = os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC
_PAUSES_S = (0.0, 0.001, 0.002, 0.005, 0.01, 0.02, 0.05)
"""The pause before each further attempt to read a file that changes."""
_YOUNG_NS = 50_000_000
"""File times come from a clock that ticks every few milliseconds: two changes may have one time."""
_KINDS = {
    stat.S_IFIFO: "a FIFO",
    stat.S_IFSOCK: "a socket",
    stat.S_IFDIR: "a directory",
    stat.S_IFCHR: "a device",
    stat.S_IFBLK: "a device",
}


def read_bytes(path: str | os.PathLike[str], *, max_bytes: int) -> bytes:
    """Return the file's content; raises OSError.

    Raises NotRegularFile for a FIFO, socket, device or directory, which is never opened;
    FileTooLarge for more than `max_bytes`; FileKeepsChanging when no two readings in a row agree.
    It never waits for a writer. A hung mount blocks it; see `fetch_bytes`.
    """
    # Before it is opened, because opening a device may act on it.
    _check_kind(Path(path).stat().st_mode, path)
    descriptor = os.open(path, _FLAGS)
    try:
        _check_kind(os.fstat(descriptor).st_mode, path)
        return stable_content(descriptor, path, max_bytes)
    except OSError as error:
        if error.filename is None:  # it is of the descriptor, as for some files of /proc
            error.filename = os.fspath(path)
        raise
    finally:
        os.close(descriptor)


def _check_kind(mode: int, path: str | os.PathLike[str]) -> None:
    if not stat.S_ISREG(mode):
        raise NotRegularFile(path, _KINDS.get(stat.S_IFMT(mode), "of no known kind"))


def stable_content(
    descriptor: int,
    path: str | os.PathLike[str],
    max_bytes: int,
    *,
    pread: Callable[[int, int, int], bytes] = os.pread,
) -> bytes:
    """Return the content that two readings of an open file agree on; tests replace `pread`."""
    before = os.fstat(descriptor)
    for pause_s in _PAUSES_S:
        if pause_s:  # even a sleep of nothing gives the processor away
            time.sleep(pause_s)
        content = _content(partial(pread, descriptor), path, max_bytes)
        after = os.fstat(descriptor)
        if _size_and_times(before) == _size_and_times(after) and _agrees(
            partial(pread, descriptor), content, after
        ):
            return content
        before = after
    raise FileKeepsChanging(path, len(_PAUSES_S))


def _content(
    pread: Callable[[int, int], bytes], path: str | os.PathLike[str], max_bytes: int
) -> bytes:
    """Return the whole content; reads at most one byte more than `max_bytes`."""
    parts: list[bytes] = []
    size = 0
    # A file of /proc has size 0, and a short read isn't the end.
    while part := pread(min(max_bytes + 1 - size, 1 << 20), size):
        parts.append(part)
        size += len(part)
        if size > max_bytes:
            raise FileTooLarge(path, max_bytes)
    return b"".join(parts)


def _size_and_times(status: os.stat_result) -> tuple[int, int, int]:
    return status.st_size, status.st_mtime_ns, status.st_ctime_ns


def _agrees(pread: Callable[[int, int], bytes], content: bytes, status: os.stat_result) -> bool:
    """Return whether the file still has this content; reads it again if its times can't tell."""
    if abs(time.time_ns() - status.st_mtime_ns) > _YOUNG_NS:
        return True
    return pread(len(content) + 1, 0) == content
