"""Blocking calls on files, run in threads, so that a hung mount delays only its own files.

The event loop's own executor is not used: its few threads are shared with everything else, and the
interpreter waits for them when it exits.
"""

import asyncio
import concurrent.futures
import os
from collections.abc import Callable, Hashable
from functools import partial
from typing import TypeVar

from mesh_filewatch._errors import ReadTimedOut
from mesh_filewatch._reading import read_bytes
from mesh_filewatch._thread_pool import ThreadPool

FETCH_TIMEOUT_S = 5.0

T = TypeVar("T")
_THREADS = ThreadPool()
"""One pool for the whole process, because the limit on threads is for the process."""


async def fetch_bytes(
    path: str | os.PathLike[str],
    *,
    max_bytes: int,
    timeout_s: float = FETCH_TIMEOUT_S,
    read: Callable[..., bytes] = read_bytes,
) -> bytes:
    """Read a file as `read_bytes` does, in a thread, without blocking the event loop.

    Raises what `read_bytes` raises, and ReadTimedOut after `timeout_s`. The thread is then
    abandoned and ends when the file system answers. The content is never older than the call.

    read: replaces `read_bytes` in tests.
    """
    return await run_in_thread(
        partial(read, path, max_bytes=max_bytes),
        path=path,
        key=(os.fspath(path), max_bytes, read),
        timeout_s=timeout_s,
    )


async def run_in_thread(
    work: Callable[[], T],
    *,
    path: str | os.PathLike[str],
    key: Hashable = None,
    timeout_s: float | None = FETCH_TIMEOUT_S,
    pool: ThreadPool = _THREADS,
) -> T:
    """Call the blocking function `work` in a thread and return its result.

    path: the file or directory that `work` uses. It appears in errors, and decides whose limit on
        threads counts.
    key: calls with equal keys are the same work. It never runs twice at a time, and all callers
        that are waiting for it to start get one result.
    timeout_s: after it, ReadTimedOut is raised as by `fetch_bytes`; None waits for ever.
    pool: the threads, for work that is to take none from files.
    """
    job = pool.submit(work, directory=_directory(path), key=object() if key is None else key)
    answer = asyncio.wrap_future(job.answer)
    try:
        done, _ = await asyncio.wait({answer}, timeout=timeout_s)
        if not done and timeout_s is not None:
            raise ReadTimedOut(path, timeout_s)
        result: T = answer.result()
        return result
    finally:
        answer.cancel()
        pool.forget(job)


def read_bytes_with_timeout(
    path: str | os.PathLike[str], *, max_bytes: int, timeout_s: float = FETCH_TIMEOUT_S
) -> bytes:
    """Read a file as `read_bytes` does, for callers without an event loop.

    Raises what `read_bytes` raises, and ReadTimedOut after `timeout_s`. Signals are handled while
    this function waits.
    """
    return run_with_timeout(
        partial(read_bytes, path, max_bytes=max_bytes), path=path, timeout_s=timeout_s
    )


def run_with_timeout(
    work: Callable[[], T], *, path: str | os.PathLike[str], timeout_s: float = FETCH_TIMEOUT_S
) -> T:
    """Call the blocking function `work` in a thread, wait for it and return its result.

    Raises ReadTimedOut after `timeout_s`, as `run_in_thread` does. This is for the start of a
    program, before there is an event loop that waiting would block.
    """
    job = _THREADS.submit(work, directory=_directory(path), key=object())
    try:
        done, _ = concurrent.futures.wait((job.answer,), timeout_s)
        if not done:
            raise ReadTimedOut(path, timeout_s)
        result: T = job.answer.result()
        return result
    finally:
        _THREADS.forget(job)


def _directory(path: str | os.PathLike[str]) -> str:
    return os.path.dirname(os.path.abspath(path))  # noqa: PTH100, PTH120 - asks no file system
