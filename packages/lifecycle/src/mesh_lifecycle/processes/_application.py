"""Runs the application that a service stands beside: it gets signals and has an exit status.

The application has this process' input, output and error output, and none of its other files. It
is the leader of a process group of its own, which has the terminal if this process had it: what
is typed there reaches the application once, and not twice.
"""

import asyncio
import errno
import os
import signal
import subprocess
from collections.abc import Mapping, Sequence
from contextlib import suppress

from mesh_lifecycle.processes._handle import ProcessHandle
from mesh_lifecycle.processes._tied import NotExecuted, start_tied

NOT_FOUND, NOT_EXECUTABLE = 127, 126
"""Exit statuses of a program that can't be started, as shells have them."""
_KILLED_S = 2.0


class ApplicationError(Exception):
    """An application can't be started. exit_status: what a shell would return for it."""

    def __init__(self, message: str, *, exit_status: int) -> None:
        super().__init__(message)
        self.exit_status = exit_status


class Application:
    """A running or ended application; created by `start_application`."""

    def __init__(self, name: str, popen: "subprocess.Popen[bytes]", handle: ProcessHandle) -> None:
        self.name = name
        self.pid = popen.pid
        self._popen = popen
        self._handle = handle
        self._status: int | None = None

    @property
    def exit_status(self) -> int | None:
        """The exit status, for one that a signal ended 128 and its number; None while it runs."""
        return self._status

    async def wait(self) -> int:
        """Wait for the end and return the exit status; may be called again, and cancelled."""
        if self._status is None:
            await self._handle.wait_end()
            self._reap()
        if self._status is None:
            raise RuntimeError("the application has ended without an exit status")
        return self._status

    def signal(self, number: int) -> None:
        """Send a signal to the application itself; nothing happens once it has ended."""
        if self._status is None:
            # Not reaped yet, so the id is not given to another process.
            with suppress(ProcessLookupError, PermissionError):
                os.kill(self.pid, number)

    async def stop(self, *, number: int, within_s: float) -> int:
        """Ask the application to end, by a signal; kill it after `within_s`. Returns its status.

        If this is cancelled, the application is killed at once.
        """
        try:
            self.signal(number)
            # Only a process that is awake can end.
            self.signal(signal.SIGCONT)
            with suppress(TimeoutError):
                async with asyncio.timeout(within_s):
                    return await self.wait()
        finally:
            self._kill()
        with suppress(TimeoutError):
            async with asyncio.timeout(_KILLED_S):
                return await self.wait()
        return 128 + signal.SIGKILL

    def close(self) -> None:
        """Let go of the application, which is killed if it still runs."""
        self._kill()
        if self._status is None:
            with suppress(subprocess.TimeoutExpired):
                self._popen.wait(_KILLED_S)
        self._handle.close()

    def _kill(self) -> None:
        """Kill an application that still runs, and what else is in its process group."""
        if self._status is None:
            with suppress(ProcessLookupError, PermissionError):
                os.killpg(self.pid, signal.SIGKILL)

    def _reap(self) -> None:
        if self._status is None:
            code = self._popen.wait()
            self._status = 128 - code if code < 0 else code


def start_application(command: Sequence[str], *, environment: Mapping[str, str]) -> Application:
    """Start a command; a program without a slash is searched on the environment's PATH.

    The kernel sends the application SIGTERM when this thread ends, however it ends.
    Raises `ApplicationError`.
    """
    name = command[0]
    try:
        popen = start_tied(command, end_signal=signal.SIGTERM, environment=environment)
    except NotExecuted as error:
        raise _not_started(name, error.errno) from error
    except OSError as error:
        raise _refused(name, error) from error
    _give_terminal(popen.pid)
    try:
        return Application(name, popen, ProcessHandle(popen.pid))
    except OSError as error:
        popen.kill()
        popen.wait()
        raise _refused(name, error) from error


def _give_terminal(group: int) -> None:
    """Let the application have the terminal, if this process has one and is in the foreground."""
    with suppress(OSError):
        if os.isatty(0) and os.tcgetpgrp(0) == os.getpgrp():
            # A process in the background that changes this is stopped by SIGTTOU otherwise.
            before = signal.signal(signal.SIGTTOU, signal.SIG_IGN)
            try:
                os.tcsetpgrp(0, group)
            finally:
                signal.signal(signal.SIGTTOU, before)


def _not_started(name: str, number: int | None) -> ApplicationError:
    if number in (errno.ENOENT, errno.ENOTDIR):
        return ApplicationError(
            f"the application {name} can't be started: there is no such program",
            exit_status=NOT_FOUND,
        )
    if number is None or number == errno.ENOEXEC:
        reason = "it is no program for this machine"
    else:
        reason = os.strerror(number)
    return ApplicationError(
        f"the application {name} can't be started: {reason[:1].lower()}{reason[1:]}",
        exit_status=NOT_EXECUTABLE,
    )


def _refused(name: str, error: OSError) -> ApplicationError:
    return ApplicationError(
        f"the application {name} can't be started: {error.strerror or error}",
        exit_status=NOT_EXECUTABLE,
    )
