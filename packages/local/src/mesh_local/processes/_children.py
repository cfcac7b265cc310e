"""Runs the mesh's processes: starts each again when it ends, and writes its output to a file.

Every process leads a session of its own, so that Ctrl-C in a terminal reaches only this program,
which then stops the others in order.
"""

import asyncio
import logging
import os
import signal
from contextlib import suppress
from enum import StrEnum
from pathlib import Path

from mesh_lifecycle import Backoff
from mesh_lifecycle.processes import tied_command
from mesh_local._errors import ProcessEnded
from mesh_local.processes._guard import Guard
from mesh_local.processes._specs import ProcessSpec, Role

log = logging.getLogger("mesh_local")

_BACKOFF = Backoff(initial_s=0.5, maximum_s=15.0, multiplier=2.0, jitter=0.2)
_STEADY_S = 10.0
_LOOK_S = 0.5
_LAST_LINES_BYTES = 16 * 1024


class OnExit(StrEnum):
    """The choice between restarting, failing and leaving it when a process ends by itself."""

    RESTART = "restart"
    FAIL = "fail"
    LEAVE = "leave"


class ChildState(StrEnum):
    """The states of a process."""

    WAITING = "waiting"
    RUNNING = "running"
    RESTARTING = "restarting"
    ENDED = "ended"


class Child:
    """One process of the mesh, started again or not when it ends."""

    def __init__(
        self,
        spec: ProcessSpec,
        *,
        on_exit: OnExit,
        may_start: asyncio.Event,
        kill_now: asyncio.Event,
        guard: Guard,
    ) -> None:
        self.spec = spec
        self.state = ChildState.WAITING
        self.pid: int | None = None
        self.restarts = 0
        self.last_exit: str | None = None
        self.starts_after_s: float | None = None
        """While it is restarting: how long after its end; None if it is started at once."""
        self.is_stopped = False
        """Whether it was asked to end: it did not end by itself then."""
        self._on_exit = on_exit
        self._may_start = may_start
        self._kill_now = kill_now
        self._guard = guard
        self._group: int | None = None
        """That of the newest process, as long as any process may be in it."""
        self._ended = asyncio.Event()
        self._process: asyncio.subprocess.Process | None = None
        self._is_killed = False
        self._not_held = asyncio.Event()
        self._not_held.set()

    async def keep_running(self) -> None:
        """Run the process until cancelled, then stop it; raises `ProcessEnded` for FAIL."""
        loop = asyncio.get_running_loop()
        delays = _BACKOFF.delays()
        await self._may_start.wait()
        while True:
            await self._not_held.wait()
            started = loop.time()
            try:
                self.last_exit = describe_exit(await self._run())
            except OSError as error:
                # The program or its directory has gone since it was looked for.
                self.last_exit = f"can't be started in {self.spec.directory}: {error.strerror}"
            if self._is_killed:
                self._is_killed = False
                self._kill_group()
                self.restarts += 1
                self.starts_after_s = None
                self.state = ChildState.RESTARTING if self._not_held.is_set() else ChildState.ENDED
                continue
            if self._on_exit is OnExit.FAIL:
                raise ProcessEnded(
                    f"{self.spec.name} ended by itself ({self.last_exit})", log=self.spec.log
                )
            if self._on_exit is OnExit.LEAVE:
                await self._stay_ended()
            self._kill_group()
            if loop.time() - started > _STEADY_S:
                delays = _BACKOFF.delays()
            delay = next(delays)
            self.restarts += 1
            self.starts_after_s = delay
            self.state = ChildState.RESTARTING
            log.warning(
                "process ended, starting it again",
                extra={"child": self.spec.name, "exit": self.last_exit, "delay_s": delay},
            )
            await asyncio.sleep(delay)

    async def wait_ended(self) -> str:
        """Wait until the process has ended and is not started again; returns how it ended."""
        await self._ended.wait()
        return self.last_exit or ""

    async def kill(self, *, hold: bool = False) -> None:
        """Kill the process with all that it started; returns when it has ended.

        It is started again at once, or with `hold` when `let_start` is called. That is as asked
        for, so that it is no end for `OnExit`. Does nothing to a process that does not run.
        """
        if hold:
            self._not_held.clear()
        process = self._process
        if process is None or process.returncode is not None:
            return
        self._is_killed = True
        signal_group(process.pid, signal.SIGKILL)
        await process.wait()

    def let_start(self) -> None:
        """Let a process that was killed with `hold` be started again."""
        self._not_held.set()

    async def _stay_ended(self) -> None:
        self.state = ChildState.ENDED
        self._ended.set()
        try:
            # The kernel tells of no group's end.
            while self._group is not None and group_exists(self._group):  # noqa: ASYNC110
                await asyncio.sleep(_LOOK_S)
            self._forget_group()
            await asyncio.Event().wait()
        finally:
            self._kill_group()

    async def _run(self) -> int:
        spec = self.spec
        with spec.log.open("ab") as output:
            process = await asyncio.create_subprocess_exec(
                *tied_command(spec.arguments, end_signal=signal.SIGKILL),
                cwd=spec.directory,
                env=dict(spec.environment),
                stdin=asyncio.subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                start_new_session=True,
            )
        self.pid = self._group = process.pid
        self._process = process
        self._guard.watch(process.pid)
        self.state = ChildState.RUNNING
        log.info("process started", extra={"child": spec.name, "pid": process.pid})
        try:
            return await process.wait()
        finally:
            if process.returncode is None:
                await self._stop_whole(process)

    async def _stop_whole(self, process: asyncio.subprocess.Process) -> None:
        """Stop the process, even if the block is left meanwhile, which cancels once more.

        So an agent that drains when the mesh is stopped finishes its requests.
        """
        stopping = asyncio.create_task(self._stop(process), name=f"stop {self.spec.name}")
        while not stopping.done():
            with suppress(asyncio.CancelledError):
                await asyncio.wait([stopping])
        stopping.result()

    async def _stop(self, process: asyncio.subprocess.Process) -> None:
        """Ask the process to end, wait a while, and leave nothing of its group."""
        self.state, self.is_stopped = ChildState.ENDED, True
        try:
            if self.spec.role is Role.APP:
                signal_group(process.pid, signal.SIGTERM)
            else:
                # An agent stops its Envoy itself, after draining it.
                process.terminate()
            ended = asyncio.ensure_future(process.wait())
            kill_now = asyncio.ensure_future(self._kill_now.wait())
            try:
                await asyncio.wait(
                    (ended, kill_now),
                    timeout=self.spec.stop_timeout_s,
                    return_when=asyncio.FIRST_COMPLETED,
                )
            finally:
                kill_now.cancel()
                ended.cancel()
                await asyncio.wait((ended, kill_now))
            if process.returncode is None:
                log.warning("process did not stop, killing it", extra={"child": self.spec.name})
        finally:
            self._kill_group()
        await process.wait()
        self.last_exit = describe_exit(process.returncode or 0)
        log.info("process stopped", extra={"child": self.spec.name, "exit": self.last_exit})

    def _kill_group(self) -> None:
        """Kill every process that is left in the group."""
        if self._group is not None:
            signal_group(self._group, signal.SIGKILL)
        self._forget_group()

    def _forget_group(self) -> None:
        """Never signal the group again: the kernel gives its number to others when it is empty."""
        if self._group is not None:
            self._guard.forget(self._group)
        self._group = None


def signal_group(pid: int, number: signal.Signals) -> None:
    """Signal a process and all that it started in its group; an empty group is no error."""
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(pid, number)


def group_exists(pid: int) -> bool:
    """Return whether any process is in a group."""
    try:
        os.killpg(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True


def describe_exit(code: int) -> str:
    """Return an exit status in words."""
    if code >= 0:
        return f"exit code {code}"
    try:
        return f"killed by {signal.Signals(-code).name}"
    except ValueError:
        return f"killed by signal {-code}"


def last_lines(path: Path, count: int = 15) -> tuple[str, ...]:
    """Return the last lines of a log; an unreadable or empty one has none."""
    try:
        with path.open("rb") as file:
            size = file.seek(0, os.SEEK_END)
            file.seek(max(0, size - _LAST_LINES_BYTES))
            text = file.read().decode(errors="replace")
    except OSError:
        return ()
    return tuple(text.splitlines()[-count:])
