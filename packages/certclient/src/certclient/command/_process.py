"""One program run to its end, and ended with all it started if it takes too long.

`subprocess` starts it in C. uvloop's own way runs Python between fork and exec, where collecting
an object of grpc.aio waits for a thread that only the parent has: the program would never begin.
A pidfd tells the end to any event loop; Linux has it from 5.3 on.
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

    It leads a session of its own, which is ended with it if this is cancelled or the time is up.
    What it prints goes to our standard error: standard output is for those who read it.

    Raises OSError when it cannot be run, TimeoutError after having ended it.
    """
    process = subprocess.Popen(  # noqa: ASYNC220 - blocks from fork to exec, as every way does
        words, env=environment, stdin=subprocess.DEVNULL, stdout=2, start_new_session=True
    )
    try:
        with _end_of(process) as ended:
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
def _end_of(process: subprocess.Popen[bytes]) -> Iterator[asyncio.Event]:
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
    """Ask the session to end; whoever stays is left to `_kill`."""
    _signal_session(process, SIGTERM)
    with suppress(TimeoutError):
        async with asyncio.timeout(_STOP_S):
            await ended.wait()


def _kill(process: subprocess.Popen[bytes]) -> None:
    _signal_session(process, SIGKILL)
    # Without awaiting, so that no second cancellation leaves a zombie. Only a kernel that holds
    # the process in a system call can delay it.
    with suppress(subprocess.TimeoutExpired):
        process.wait(_KILLED_S)


def _signal_session(process: subprocess.Popen[bytes], number: Signals) -> None:
    # Not reaped yet, so its number cannot be another's.
    with suppress(ProcessLookupError):
        os.killpg(process.pid, number)
