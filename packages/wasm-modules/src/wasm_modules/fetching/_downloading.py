"""A body written to a file as it comes, a megabyte in memory at most; and further attempts."""

from __future__ import annotations

import hashlib
import logging
import os
from collections.abc import Awaitable, Callable
from functools import partial
from itertools import islice
from pathlib import Path
from typing import TypeVar

from mesh_filewatch import run_in_thread
from mesh_lifecycle import Backoff, Clock
from wasm_modules._errors import PassingFailure
from wasm_modules.fetching._http import Answer

log = logging.getLogger("wasm_modules")

BACKOFF = Backoff(initial_s=0.5, maximum_s=10.0, multiplier=2.0, jitter=0.2)
_WRITE_BYTES = 1 << 20

T = TypeVar("T")


async def download(answer: Answer, path: Path, *, most: int) -> str:
    """Write an answer's body to a new file; return the SHA-256 of the bytes that came, in hex.

    Raises DownloadError, PassingFailure, and OSError if the file cannot be written.
    """
    answer.limit(most)
    digest = hashlib.sha256()
    pending: list[bytes] = []
    size = 0
    await _in_thread(path, partial(_write, path, b"", os.O_CREAT | os.O_EXCL))
    while piece := await answer.read():
        pending.append(piece)
        size += len(piece)
        if size >= _WRITE_BYTES:
            await _in_thread(path, partial(_append, path, b"".join(pending), digest.update))
            pending, size = [], 0
    await _in_thread(path, partial(_append, path, b"".join(pending), digest.update))
    return digest.hexdigest()


async def retrying(
    attempt: Callable[[], Awaitable[T]], *, max_retries: int, clock: Clock, source: str
) -> T:
    """Return what an attempt returns; after a PassingFailure make another one, after a pause.

    Raises the last one's error.
    """
    for delay in islice(BACKOFF.delays(), max_retries):
        try:
            return await attempt()
        except PassingFailure as error:
            log.info(
                "wasm module is asked for again",
                extra={"source": source, "reason": str(error), "in_s": round(delay, 1)},
            )
        await clock.sleep(delay)
    return await attempt()


async def _in_thread(path: Path, work: Callable[[], None]) -> None:
    await run_in_thread(work, path=path, timeout_s=None)


def _append(path: Path, content: bytes, update: Callable[[bytes], None]) -> None:
    update(content)
    _write(path, content, 0)


def _write(path: Path, content: bytes, flags: int) -> None:
    # Opened each time: a file that stays open could be closed, by a fetch that is cancelled, while
    # this thread writes.
    descriptor = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CLOEXEC | flags, 0o600)
    with os.fdopen(descriptor, "wb") as file:
        file.write(content)
