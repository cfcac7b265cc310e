"""Notices that files have changed, by their contents.

The kernel tells when to look, and the content decides whether a file changed: one that was written
anew with the same content is unchanged. A file whose mount hangs counts as unchanged.
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
    """Return the SHA-256 of names and contents, without files that cannot be read."""
    digest = hashlib.sha256()
    for path in paths:
        try:
            content = read_bytes(path, max_bytes=MAX_FILE_BYTES)
        except OSError:
            continue
        digest.update(f"{path}\0{len(content)}\0".encode("utf-8", "surrogateescape"))
        digest.update(content)
    return digest.hexdigest()


class _Content(NamedTuple):
    stamp: FileStat
    digest: bytes


class FileContents:
    """The contents of some files; created by `watching_contents`."""

    def __init__(self, paths: Sequence[Path], watch: FileWatch) -> None:
        self._paths = paths
        self._watch = watch
        self._contents: dict[Path, _Content | None] = {}

    async def has_changed(self) -> bool:
        """Return whether the content of any file differs from that at the last call."""
        await self._watch.follow(self._paths)
        before = self._contents
        found = await asyncio.gather(*(_content_of(path, before.get(path)) for path in self._paths))
        self._contents = dict(zip(self._paths, found, strict=True))
        return any(
            _digest(before.get(path)) != _digest(self._contents[path]) for path in self._paths
        )

    async def wait_changed(self) -> None:
        """Return when `has_changed` is so, and the files have settled."""
        while True:
            await self._watch.wait()
            if await self.has_changed():
                return


@asynccontextmanager
async def watching_contents(paths: Sequence[Path]) -> AsyncIterator[FileContents]:
    """Follows these files for as long as the block runs, from their contents now."""
    async with watching() as watch:
        contents = FileContents(paths, watch)
        await contents.has_changed()
        yield contents


async def _content_of(path: Path, before: _Content | None) -> _Content | None:
    try:
        return await run_in_thread(partial(_read, path, before), path=path, key=("content", path))
    except ReadTimedOut:
        return before


def _read(path: Path, before: _Content | None) -> _Content | None:
    """Run in a thread."""
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
    return _Content(now, hashlib.sha256(content).digest())


def _digest(content: _Content | None) -> bytes | None:
    return None if content is None else content.digest
