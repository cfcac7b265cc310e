"""The mesh's own programs as the faults have them: killed, started again, stopped for a while."""

import asyncio
import os
import signal
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

from mesh_chaos._waiting import soon
from mesh_e2e import alive, children_of
from mesh_lifecycle.processes import tied_command
from mesh_local import Child


class Part:
    """A program of the mesh: first the one that the mesh has started, then those started here.

    arguments, environment: more of them for those that are started here.
    """

    def __init__(
        self,
        name: str,
        child: Child,
        *,
        arguments: Sequence[str] = (),
        environment: Mapping[str, str] | None = None,
    ) -> None:
        self.name = name
        self.spec = child.spec
        self.starts = 0
        self._command = (*child.spec.arguments, *arguments)
        self._environment = {**child.spec.environment, **(environment or {})}
        self._pid = child.pid
        self._process: asyncio.subprocess.Process | None = None

    @property
    def pid(self) -> int:
        """Of the newest process, which may have ended."""
        assert self._pid is not None
        return self._pid

    @property
    def ended(self) -> bool:
        return not alive(self.pid)

    def envoys(self) -> tuple[int, ...]:
        """Return the Envoys of an agent: one, or two for the while of a hot restart."""
        return tuple(pid for pid in children_of(self.pid) if is_envoy(pid))

    async def start(self, environment: Mapping[str, str] | None = None) -> None:
        """Start it again; it has ended before. environment: more variables, for this once."""
        spec = self.spec
        with spec.log.open("ab") as log:
            self._process = await asyncio.create_subprocess_exec(
                *tied_command(self._command, end_signal=signal.SIGKILL),
                env={**self._environment, **(environment or {})},
                cwd=spec.directory,
                stdin=asyncio.subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )
        self._pid = self._process.pid
        self.starts += 1

    async def kill(self) -> None:
        """Kill it; the kernel has ended it when this returns."""
        with suppress(ProcessLookupError):
            os.kill(self.pid, signal.SIGKILL)
        if self._process is not None:
            await self._process.wait()
        await soon(lambda: self.ended, what=f"{self.name} to end")

    async def kill_started(self) -> None:
        """Kill it, if it was started here."""
        if self._process is not None and self._process.returncode is None:
            self._process.kill()
            await self._process.wait()

    async def end(self, timeout_s: float) -> str:
        """End one that was started here; returns what is wrong with how it ended."""
        if self._process is None:
            return ""
        if self._process.returncode is not None:
            return f"{self.name} has ended by itself with {self._process.returncode}"
        self._process.terminate()
        try:
            async with asyncio.timeout(timeout_s):
                code = await self._process.wait()
        except TimeoutError:
            self._process.kill()
            await self._process.wait()
            return f"{self.name} did not end within {timeout_s:.0f} s of SIGTERM"
        return "" if code == 0 else f"{self.name} ended with {code} after SIGTERM"


def is_envoy(pid: int) -> bool:
    """Whether a process runs an Envoy by now; the agent's child is another program before."""
    with suppress(OSError):
        return "envoy" in Path(f"/proc/{pid}/exe").readlink().name
    return False


def kill_all(pids: Iterable[int]) -> None:
    """Kill processes, as far as they are there."""
    for pid in pids:
        _signal(pid, signal.SIGKILL)


@contextmanager
def stopped(*pids: int) -> Iterator[None]:
    """Have processes stand still for as long as the block runs."""
    try:
        for pid in pids:
            _signal(pid, signal.SIGSTOP)
        yield
    finally:
        for pid in pids:
            _signal(pid, signal.SIGCONT)


def _signal(pid: int, number: signal.Signals) -> None:
    with suppress(ProcessLookupError):
        os.kill(pid, number)
