"""Runs a program to its end, and kills it with its children if it takes too long.

`subprocess` starts it, because it forks in C. uvloop runs Python code between fork and exec, where
collecting an object of grpc.aio waits for a thread that exists only in the parent: the program
would never start. A pidfd, which Linux has from 5.3 on, reports the end to any event loop.
"""

import asyncio
import os
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from signal import SIGKILL, SIGTERM, Signals

_STOP_S = 5.0
_KILLED_S = 2.0


async def run_to_end(
    words: Sequence[str], *, environment: Mapping[str, str], timeout_s: float
) -> int:
    """Run a program without a shell and return its code, negative for a signal.

    It leads a session of its own, which is killed with it at the timeout or if the caller is
    cancelled. Its output goes to our standard error: our standard output has our own events only.

    Raises OSError if it can't be started, TimeoutError after it was killed.
    """
    process = subprocess.Popen(  # noqa: ASYNC220 - blocks from fork to exec, as every way does
        words, env=environment, stdin=subprocess.DEVNULL, stdout=2, start_new_session=True
    )
    try:
        with _watch_end(process) as ended:
            try:
                async with asyncio.timeout(timeout_s):
                    await ended.wait()
            finally:
                if not ended.is_set():
                    await _end(process, ended)
    finally:
        if process.poll() is None:
            _kill(process)
    return process.returncode


@contextmanager
def _watch_end(process: subprocess.Popen[bytes]) -> Iterator[asyncio.Event]:
    loop, ended = asyncio.get_running_loop(), asyncio.Event()
    pidfd = os.pidfd_open(process.pid)

    def on_end() -> None:
        loop.remove_reader(pidfd)
        ended.set()

    try:
        loop.add_reader(pidfd, on_end)
        yield ended
    finally:
        loop.remove_reader(pidfd)
        os.close(pidfd)


async def _end(process: subprocess.Popen[bytes], ended: asyncio.Event) -> None:
    """Send SIGTERM to the session and wait a while; `_kill` ends the processes that remain."""
    _signal_session(process, SIGTERM)
    with suppress(TimeoutError):
        async with asyncio.timeout(_STOP_S):
            await ended.wait()


def _kill(process: subprocess.Popen[bytes]) -> None:
    _signal_session(process, SIGKILL)
    # Without awaiting, so that a second cancellation leaves no zombie. Only a process that hangs in
    # a system call takes time to end.
    with suppress(subprocess.TimeoutExpired):
        process.wait(_KILLED_S)


def _signal_session(process: subprocess.Popen[bytes], number: Signals) -> None:
    # It was not reaped yet, so no other process has its number.
    with suppress(ProcessLookupError):
        os.killpg(process.pid, number)
