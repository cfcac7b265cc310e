"""One Envoy process with what belongs to it: its files, its log, its readiness."""

from __future__ import annotations

import asyncio
import logging
import os
import signal
from contextlib import ExitStack, suppress
from functools import partial
from pathlib import Path

from envoy_supervisor._errors import AdminError, EnvoySupervisorError
from envoy_supervisor._exit import Exit
from envoy_supervisor._files import remove
from envoy_supervisor.admin._client import AdminClient
from envoy_supervisor.decisions._state import ProcessState
from envoy_supervisor.handover._hot_restart_files import (
    clear_failed_child_mark,
    id_file,
    read_base_id,
    socket_path,
)
from envoy_supervisor.processes._arguments import HotRestart, envoy_arguments
from envoy_supervisor.processes._exit_reason import explain_exit
from envoy_supervisor.processes._memory_cgroup import watch_memory
from envoy_supervisor.processes._output_log import OutputLog
from envoy_supervisor.processes._subprocess import Subprocess, spawn
from envoy_supervisor.processes._version import Version, bootstrap_file
from mesh_filewatch import ReadTimedOut, run_with_timeout
from mesh_lifecycle import Clock

log = logging.getLogger(__name__)

READY_POLL_S = 0.02
READY_POLL_SLOW_S = 0.25


class EnvoyProcess:
    """An Envoy that was started.

    started_as: its number, series, epoch and version; the stage in it is that of the start.
    asked_to_exit: whether its end was asked for.
    """

    def __init__(
        self,
        started_as: ProcessState,
        version: Version,
        subprocess: Subprocess,
        *,
        config_path: Path,
        files: ExitStack,
        clock: Clock,
    ) -> None:
        self.started_as = started_as
        self.version = version
        self.admin = AdminClient(version.admin)
        self.started_at = clock.monotonic()
        self.ready_at = 0.0
        self.asked_to_exit = False
        self._subprocess = subprocess
        self._config_path = config_path
        self._clock = clock
        self._files = files
        self._output = OutputLog(pid=lambda: subprocess.pid, monotonic=clock.monotonic)
        self._memory = watch_memory(subprocess.pid)
        subprocess.listen(self._output.feed, self._output.close)

    @property
    def pid(self) -> int:
        """The process id."""
        return self._subprocess.pid

    @property
    def exited(self) -> asyncio.Future[int]:
        """Gets the return code when the process has ended; negative for a signal."""
        return self._subprocess.exited

    def signal(self, number: signal.Signals) -> None:
        """Send a signal; nothing happens once the process has ended."""
        self._subprocess.signal(number)

    async def kill(self) -> None:
        """Kills the process and waits until it is gone, even if this is cancelled."""
        await self._subprocess.kill()

    async def wait_ready(self) -> None:
        """Polls the admin interface until this process serves.

        Another process may answer at the same address: for a while the parent, or an Envoy that
        does not belong to this supervisor and makes this one fail.
        """
        interval_s = READY_POLL_S
        while not await self.probe():
            await self._clock.sleep(interval_s)
            interval_s = min(READY_POLL_SLOW_S, interval_s * 1.1)

    async def probe(self) -> bool:
        """Ask at the admin interface whether this process, and no other, is live."""
        try:
            info = await self.admin.server_info()
        except AdminError:
            return False
        options = info.get("command_line_options")
        if info.get("state") != "LIVE" or not isinstance(options, dict):
            return False
        ours = (str(self._config_path), self.started_as.epoch)
        return (options.get("config_path"), options.get("restart_epoch", 0)) == ours

    def finish(self) -> Exit:
        """Remove the files of the process, which has ended, and returns why it ended."""
        self._files.close()
        return explain_exit(
            self._subprocess.exited.result(),
            self._output.recent,
            asked_to_exit=self.asked_to_exit,
            memory=self._memory,
        )


def remove_stale_bootstraps(directory: Path, *, but: Path | None) -> None:
    """Remove bootstraps of a supervisor that was killed. `but`: one that is the user's own."""
    for pattern in ("envoy-rev[0-9]*", ".envoy-rev[0-9]*"):
        for path in directory.glob(pattern):
            if but is None or not _is_same(path, but):
                remove(path)


def _is_same(path: Path, other: Path) -> bool:
    """Compares with `other`, whose mount may hang, beyond the name only if the name is the same."""
    if path.name != other.name:
        return False
    with suppress(ReadTimedOut):
        real: str = run_with_timeout(partial(os.path.realpath, other), path=other, timeout_s=1.0)
        return real == os.path.realpath(path)
    return False


def start_envoy(
    state: ProcessState, version: Version, *, directory: Path, clock: Clock
) -> EnvoyProcess:
    """Start the process. Raises `EnvoyNotFound` or `EnvoySupervisorError` if that cannot be."""
    config = version.config
    hot_restart = _hot_restart(state, directory) if config.hot_restart else None
    with ExitStack() as files:
        path = files.enter_context(
            bootstrap_file(version, directory / f"envoy-rev{state.number}.json")
        )
        arguments = envoy_arguments(
            config, path, hot_restart=hot_restart, own_log_format=not version.sets_log_format
        )
        try:
            directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        except OSError as error:
            raise EnvoySupervisorError(f"cannot make {directory}: {error.strerror}") from error
        process = EnvoyProcess(
            state,
            version,
            spawn([str(config.binary), *arguments]),
            config_path=path,
            files=files.pop_all(),
            clock=clock,
        )
    log.info(
        "envoy started",
        extra={"pid": process.pid, "epoch": state.epoch, "binary": str(config.binary)},
    )
    return process


def _hot_restart(state: ProcessState, directory: Path) -> HotRestart:
    file = id_file(directory, state.series)
    path = socket_path(file)
    if path is None:
        log.warning("the directory's path is too long for sockets, hot restart uses abstract ones")
    if state.epoch == 0:
        return HotRestart(id_file=file, socket_path=path)
    clear_failed_child_mark(file)
    return HotRestart(
        id_file=file,
        socket_path=path,
        base_id=read_base_id(file),
        epoch=state.epoch,
        # A parent that has died cannot be asked for statistics any more.
        parent_statistics=not state.parent_died,
    )
