"""A regular file's content, whole and of one state, whatever stands at the path.

The path was named by a user or a peer, so it may lead to a FIFO without a writer, to a device, to
a file without an end or to one that is being written.
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
"""How long a file that changes is left to its writer before each further try."""
_YOUNG_NS = 50_000_000
"""A file's times come from a clock that ticks every few milliseconds: two changes may bear one."""
_KINDS = {
    stat.S_IFIFO: "a FIFO",
    stat.S_IFSOCK: "a socket",
    stat.S_IFDIR: "a directory",
    stat.S_IFCHR: "a device",
    stat.S_IFBLK: "a device",
}


def read_bytes(path: str | os.PathLike[str], *, max_bytes: int) -> bytes:
    """Return what the file holds; raises OSError, with a whole sentence where it is one of ours.

    NotRegularFile for a FIFO, socket, device or directory, which is never opened; FileTooLarge
    for more than `max_bytes`; FileKeepsChanging when no two looks in a row agree. It never waits
    for a writer, but a hung mount holds it up: `fetch_bytes` does not let it hold up others.
    """
    # Before it is opened, because opening a device may act on it.
    _check_kind(Path(path).stat().st_mode, path)
    descriptor = os.open(path, _FLAGS)
    try:
        _check_kind(os.fstat(descriptor).st_mode, path)
        return stable_content(descriptor, path, max_bytes)
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
    """Return what two looks at an open file agree on; `pread` stands in for the kernel's."""
    before = os.fstat(descriptor)
    for pause_s in _PAUSES_S:
        if pause_s:  # even a sleep of nothing gives the processor away
            time.sleep(pause_s)
        content = _content(partial(pread, descriptor), path, max_bytes)
        after = os.fstat(descriptor)
        if _marks(before) == _marks(after) and _agrees(partial(pread, descriptor), content, after):
            return content
        before = after
    raise FileKeepsChanging(path, len(_PAUSES_S))


def _content(
    pread: Callable[[int, int], bytes], path: str | os.PathLike[str], max_bytes: int
) -> bytes:
    """Return all from the file's start, at most one byte more than is allowed having been read."""
    parts: list[bytes] = []
    size = 0
    # A file of /proc says that it is empty, and a short answer isn't the end.
    while part := pread(min(max_bytes + 1 - size, 1 << 20), size):
        parts.append(part)
        size += len(part)
        if size > max_bytes:
            raise FileTooLarge(path, max_bytes)
    return b"".join(parts)


def _marks(status: os.stat_result) -> tuple[int, int, int]:
    return status.st_size, status.st_mtime_ns, status.st_ctime_ns


def _agrees(pread: Callable[[int, int], bytes], content: bytes, status: os.stat_result) -> bool:
    """Say whether the file holds this still, where its times alone can't tell."""
    if abs(time.time_ns() - status.st_mtime_ns) > _YOUNG_NS:
        return True
    return pread(len(content) + 1, 0) == content
