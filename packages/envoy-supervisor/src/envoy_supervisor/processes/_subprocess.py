"""One program in a process of its own: tied to this process' life, its output read, and reaped.

`subprocess` with a pidfd instead of asyncio's subprocesses: the exit is an ordinary readable
descriptor, so there is no child watcher, thread or signal handler, and every event loop does.
Needs Linux 5.3.
"""

from __future__ import annotations

import asyncio
import contextlib
import errno
import os
import signal
import subprocess
from collections.abc import Callable, Sequence
from typing import IO

from envoy_supervisor._errors import EnvoyNotFound, EnvoySupervisorError
from mesh_lifecycle.processes import NotExecuted, start_tied

_READ_BYTES = 64 * 1024
_READS_AFTER_END = 32
_KILLED_S = 2.0


class Subprocess:
    """A running or ended program. `exited` gets its return code, negative for a signal."""

    def __init__(self, popen: subprocess.Popen[bytes], stdout: IO[bytes], pidfd: int) -> None:
        self.pid = popen.pid
        self.exited: asyncio.Future[int] = asyncio.get_running_loop().create_future()
        self._popen = popen
        self._stdout = stdout
        self._pidfd = pidfd
        self._output: Callable[[bytes], None] = _nowhere
        self._closed: Callable[[], None] = _nothing

    def listen(self, output: Callable[[bytes], None], closed: Callable[[], None]) -> None:
        """Begin to read what the program prints, and reaps it when it ends.

        output: gets the output in pieces of any size. closed: called once, after the last piece.
        """
        self._output, self._closed = output, closed
        loop = asyncio.get_running_loop()
        os.set_blocking(self._pipe, False)
        loop.add_reader(self._pipe, self._on_output)
        loop.add_reader(self._pidfd, self._on_end)

    def signal(self, number: signal.Signals) -> None:
        """Send a signal; nothing happens once the process has ended."""
        if not self.exited.done():
            # Through Popen, which has not reaped the process yet: its pid is not reused yet.
            self._popen.send_signal(number)

    async def kill(self) -> None:
        """Kills the process and waits until it is gone, even if this is cancelled."""
        self.signal(signal.SIGKILL)
        try:
            # Only a kernel that holds the process in a system call can delay it.
            await asyncio.wait({self.exited}, timeout=_KILLED_S)
        except asyncio.CancelledError:
            if not self.exited.done():
                with contextlib.suppress(subprocess.TimeoutExpired):
                    self._popen.wait(_KILLED_S)
                    self._on_end()
            raise

    @property
    def _pipe(self) -> int:
        return self._stdout.fileno()

    def _on_output(self) -> None:
        if not _read_once(self._pipe, self._output):
            asyncio.get_running_loop().remove_reader(self._pipe)

    def _on_end(self) -> None:
        loop = asyncio.get_running_loop()
        loop.remove_reader(self._pidfd)
        loop.remove_reader(self._pipe)
        for _ in range(_READS_AFTER_END):
            if not _read_once(self._pipe, self._output):
                break
        self._closed()
        os.close(self._pidfd)
        self._stdout.close()
        self.exited.set_result(self._popen.wait())


def spawn(arguments: Sequence[str]) -> Subprocess:
    """Start a program in its own process group, its stdout and stderr in one pipe.

    The kernel kills it when the calling *thread* ends (that is what Linux ties it to), so call it
    from the thread whose event loop runs for as long as the program should.

    Raises `EnvoyNotFound` when there is no such program or it may not be executed,
    `EnvoySupervisorError` when the system refuses a new process.
    """
    try:
        popen = start_tied(
            arguments,
            end_signal=signal.SIGKILL,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
        )
    except NotExecuted as error:
        raise EnvoyNotFound(f"cannot execute {arguments[0]}: {_why(error)}") from error
    except OSError as error:
        raise EnvoySupervisorError(f"cannot start {arguments[0]}: {error.strerror}") from error
    try:
        assert popen.stdout is not None  # noqa: S101 - started with a pipe
        return Subprocess(popen, popen.stdout, os.pidfd_open(popen.pid))
    except OSError as error:
        _reap(popen)
        raise EnvoySupervisorError(f"cannot watch {arguments[0]}: {error.strerror}") from error


def _reap(popen: subprocess.Popen[bytes]) -> None:
    popen.kill()
    popen.wait()
    if popen.stdout is not None:
        popen.stdout.close()


def _why(error: OSError) -> str:
    if error.errno == errno.ENOEXEC:
        return "it is no program for this machine"
    return error.strerror or str(error)


def _read_once(descriptor: int, output: Callable[[bytes], None]) -> bool:
    """Read a piece; returns False at the end of the output."""
    try:
        data = os.read(descriptor, _READ_BYTES)
    except BlockingIOError:
        return True
    if data:
        output(data)
    return bool(data)


def _nowhere(_: bytes) -> None:
    return None


def _nothing() -> None:
    return None
