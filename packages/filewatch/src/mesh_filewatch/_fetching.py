"""Blocking file work off the event loop, where a hung mount holds up nothing but its own files.

The loop's own executor will not do: its few threads are shared with everything else, and the
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
from mesh_filewatch._threads import Threads

FETCH_TIMEOUT_S = 5.0

T = TypeVar("T")
_THREADS = Threads()
"""Of the whole process: it is the process that may not have too many, whoever asks."""


async def fetch_bytes(
    path: str | os.PathLike[str],
    *,
    max_bytes: int,
    timeout_s: float = FETCH_TIMEOUT_S,
    read: Callable[..., bytes] = read_bytes,
) -> bytes:
    """Return what `read_bytes` does, and raise what it does, without holding up the loop.

    Raises ReadTimedOut after `timeout_s`: the thread that reads is left to its file system then,
    and ends by itself when that answers. The content is never older than the call.

    read: stands in for `read_bytes` in tests.
    """
    return await run_aside(
        partial(read, path, max_bytes=max_bytes),
        about=path,
        key=(os.fspath(path), max_bytes, read),
        timeout_s=timeout_s,
    )


async def run_aside(
    work: Callable[[], T],
    *,
    about: str | os.PathLike[str],
    key: Hashable = None,
    timeout_s: float | None = FETCH_TIMEOUT_S,
) -> T:
    """Return what the blocking `work` does with the file or directory `about`, done in a thread.

    Raises ReadTimedOut after `timeout_s`, as `fetch_bytes` does; None is for ever. Calls with one
    key are the same work: those that wait for it to begin get one answer, and it is never at work
    twice.
    """
    job = _THREADS.submit(work, directory=_directory(about), key=object() if key is None else key)
    answer = asyncio.wrap_future(job.answer)
    try:
        done, _ = await asyncio.wait({answer}, timeout=timeout_s)
        if not done and timeout_s is not None:
            raise ReadTimedOut(about, timeout_s)
        result: T = answer.result()
        return result
    finally:
        answer.cancel()
        _THREADS.forget(job)


def read_within(
    path: str | os.PathLike[str], *, max_bytes: int, timeout_s: float = FETCH_TIMEOUT_S
) -> bytes:
    """Return what `read_bytes` does, and raise what it does, where no event loop runs yet.

    Raises ReadTimedOut after `timeout_s`. Signals are handled meanwhile.
    """
    return run_within(
        partial(read_bytes, path, max_bytes=max_bytes), about=path, timeout_s=timeout_s
    )


def run_within(
    work: Callable[[], T], *, about: str | os.PathLike[str], timeout_s: float = FETCH_TIMEOUT_S
) -> T:
    """Return what the blocking `work` does with the file or directory `about`, done in a thread.

    Raises ReadTimedOut after `timeout_s`, as `run_aside` does. The caller waits for it: it is for
    the start of a program, before there is an event loop to hold up.
    """
    job = _THREADS.submit(work, directory=_directory(about), key=object())
    try:
        done, _ = concurrent.futures.wait((job.answer,), timeout_s)
        if not done:
            raise ReadTimedOut(about, timeout_s)
        result: T = job.answer.result()
        return result
    finally:
        _THREADS.forget(job)


def _directory(path: str | os.PathLike[str]) -> str:
    return os.path.dirname(os.path.abspath(path))  # noqa: PTH100, PTH120 - asks no file system
