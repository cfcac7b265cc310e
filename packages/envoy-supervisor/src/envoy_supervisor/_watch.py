"""Noticing that files changed, by what is in them.

Looks again and again instead of asking the kernel: it works wherever files can be read, sees
Kubernetes' symbolic link swaps and files that are replaced, created or gone, and costs one `stat`
a file each time.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import AsyncIterator, Sequence
from pathlib import Path

from mesh_lifecycle import Clock, SystemClock

MAX_FILE_BYTES = 64 * 1024 * 1024


def content_hash(paths: Sequence[Path]) -> str:
    """SHA-256 over names and contents; files that are missing or cannot be read have none."""
    digest = hashlib.sha256()
    for path in paths:
        try:
            with path.open("rb") as file:
                content = file.read(MAX_FILE_BYTES)
        except OSError:
            continue
        digest.update(f"{path}\0{len(content)}\0".encode("utf-8", "surrogateescape"))
        digest.update(content)
    return digest.hexdigest()


async def changes(
    paths: Sequence[Path],
    *,
    poll_s: float = 0.5,
    minimum_delay_s: float = 2.0,
    clock: Clock | None = None,
) -> AsyncIterator[str]:
    """Yield the hash of all contents each time it has become another one.

    poll_s: how often to look. A change is told when it has stayed the same for one look, so a
        file that is still being written is not read half.
    minimum_delay_s: the least time between two tellings; changes within it become one.
    """
    clock = clock or SystemClock()
    told = content_hash(paths)
    seen = _signature(paths)
    settled = True
    told_at = clock.monotonic() - minimum_delay_s
    while True:
        await clock.sleep(poll_s)
        now = _signature(paths)
        if now != seen:
            seen, settled = now, False
            continue
        if settled or clock.monotonic() - told_at < minimum_delay_s:
            continue
        settled = True
        current = content_hash(paths)
        if current != told:
            told, told_at = current, clock.monotonic()
            yield told


def _signature(paths: Sequence[Path]) -> tuple[object, ...]:
    """What changes when a file does, without reading it."""
    return tuple(_facts(path) for path in paths)


def _facts(path: Path) -> tuple[int, ...] | None:
    try:
        status = os.stat(path)  # noqa: PTH116 - follows links, like Path.stat, without its cost
    except OSError:
        return None
    return status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns
