"""Noticing that files changed, by what is in them.

The kernel tells when to look, and what is in a file decides whether it changed: one that was
written anew with what it held is no change. A file whose mount hangs is what it last was.
"""

from __future__ import annotations

import asyncio
import hashlib
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import NamedTuple

from mesh_filewatch import (
    FileStat,
    FileWatch,
    ReadTimedOut,
    file_stat,
    read_bytes,
    run_in_thread,
    watching,
)

MAX_FILE_BYTES = 512 * 1024 * 1024
_YOUNG_S = 2.0
"""Times of files may be as coarse as this: a second write within it may leave them as they were."""


def content_hash(paths: Sequence[Path]) -> str:
    """SHA-256 over names and contents; files that are missing or cannot be read have none."""
    digest = hashlib.sha256()
    for path in paths:
        try:
            content = read_bytes(path, max_bytes=MAX_FILE_BYTES)
        except OSError:
            continue
        digest.update(f"{path}\0{len(content)}\0".encode("utf-8", "surrogateescape"))
        digest.update(content)
    return digest.hexdigest()


class _Held(NamedTuple):
    stamp: FileStat
    digest: bytes


class FileContents:
    """What some files hold; made by `watching_contents`."""

    def __init__(self, paths: Sequence[Path], watch: FileWatch) -> None:
        self._paths = paths
        self._watch = watch
        self._held: dict[Path, _Held | None] = {}

    async def look(self) -> bool:
        """Return whether any file holds something else than at the last look."""
        await self._watch.follow(self._paths)
        before = self._held
        found = await asyncio.gather(*(_look(path, before.get(path)) for path in self._paths))
        self._held = dict(zip(self._paths, found, strict=True))
        return any(_digest(before.get(path)) != _digest(self._held[path]) for path in self._paths)

    async def wait_changed(self) -> None:
        """Return when a file holds something else than at the last look, and has settled."""
        while True:
            await self._watch.wait()
            if await self.look():
                return


@asynccontextmanager
async def watching_contents(paths: Sequence[Path]) -> AsyncIterator[FileContents]:
    """Follow these files for as long as the block runs, from what they hold now."""
    async with watching() as watch:
        contents = FileContents(paths, watch)
        await contents.look()
        yield contents


async def _look(path: Path, before: _Held | None) -> _Held | None:
    try:
        return await run_in_thread(partial(_read, path, before), path=path, key=("content", path))
    except ReadTimedOut:
        return before


def _read(path: Path, before: _Held | None) -> _Held | None:
    """Runs in a thread."""
    try:
        now = file_stat(path)
        if now is None:
            return None
        lasting = abs(time.time() - path.stat().st_mtime) > _YOUNG_S
        if lasting and before is not None and before.stamp == now:
            return before
        content = read_bytes(path, max_bytes=MAX_FILE_BYTES)
    except OSError:
        return None
    return _Held(now, hashlib.sha256(content).digest())


def _digest(held: _Held | None) -> bytes | None:
    return None if held is None else held.digest
