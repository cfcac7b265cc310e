"""One Envoy process with what belongs to it: its files, its log, its readiness."""

from __future__ import annotations

import logging
from contextlib import ExitStack, suppress
from pathlib import Path

from envoy_supervisor._errors import AdminError, EnvoySupervisorError
from envoy_supervisor._exit import Exit
from envoy_supervisor._files import remove
from envoy_supervisor.admin._client import AdminClient
from envoy_supervisor.decisions._process_states import Member
from envoy_supervisor.handover._hot_restart_files import (
    forget_failed_child,
    id_file,
    read_base_id,
    socket_path,
)
from envoy_supervisor.processes._arguments import HotRestart, envoy_arguments
from envoy_supervisor.processes._child_process import Process, spawn
from envoy_supervisor.processes._exit_reason import explain_exit
from envoy_supervisor.processes._memory_cgroup import watch_memory
from envoy_supervisor.processes._output_log import OutputLog
from envoy_supervisor.processes._version import Version, bootstrap_file
from mesh_filewatch import ReadTimedOut, run_with_timeout
from mesh_lifecycle import Clock

log = logging.getLogger(__name__)

READY_POLL_S = 0.02
READY_POLL_SLOW_S = 0.25


class Child:
    """A process that was started. `told_to` says whether its end was asked for."""

    def __init__(
        self,
        member: Member,
        version: Version,
        process: Process,
        *,
        config_path: Path,
        files: ExitStack,
        clock: Clock,
    ) -> None:
        self.member = member
        self.version = version
        self.process = process
        self.admin = AdminClient(version.admin)
        self.started = clock.monotonic()
        self.ready_at = 0.0
        self.told_to = False
        self._config_path = config_path
        self._clock = clock
        self._files = files
        self._output = OutputLog(pid=lambda: process.pid, monotonic=clock.monotonic)
        self._memory = watch_memory(process.pid)
        process.listen(self._output.feed, self._output.close)

    async def until_ready(self) -> None:
        """Poll until this process serves.

        At the same address another may answer: for a while its parent, or an Envoy that is none of
        ours and makes this one fail.
        """
        interval_s = READY_POLL_S
        while not await self.serves():
            await self._clock.sleep(interval_s)
            interval_s = min(READY_POLL_SLOW_S, interval_s * 1.1)

    def ended(self) -> Exit:
        """Remove its files, and say why it ended."""
        self._files.close()
        return explain_exit(
            self.process.exited.result(),
            self._output.kept,
            told_to=self.told_to,
            memory=self._memory,
        )

    async def serves(self) -> bool:
        """Whether it, and nobody else, answers at its admin interface that it is live."""
        try:
            info = await self.admin.server_info()
        except AdminError:
            return False
        options = info.get("command_line_options")
        if info.get("state") != "LIVE" or not isinstance(options, dict):
            return False
        place = (str(self._config_path), self.member.epoch)
        return (options.get("config_path"), options.get("restart_epoch", 0)) == place


def remove_stale(directory: Path, *, but: Path | None) -> None:
    """Remove bootstraps that a supervisor left which was killed; but: one that is the user's."""
    for pattern in ("envoy-rev[0-9]*", ".envoy-rev[0-9]*"):
        for path in directory.glob(pattern):
            if but is None or not _is_same(path, but):
                remove(path)


def _is_same(path: Path, other: Path) -> bool:
    """Ask of `other`, which a user named and whose mount may hang, only if the name is the same."""
    if path.name != other.name:
        return False
    with suppress(ReadTimedOut):
        return run_with_timeout(other.resolve, path=other, timeout_s=1.0) == path.resolve()
    return False


def start_child(member: Member, version: Version, *, directory: Path, clock: Clock) -> Child:
    """Start the process. Raises `EnvoyNotFound` or `EnvoySupervisorError` if that cannot be."""
    config = version.config
    place = _place(member, directory) if config.hot_restart else None
    with ExitStack() as files:
        path = files.enter_context(
            bootstrap_file(version, directory / f"envoy-rev{member.number}.json")
        )
        arguments = envoy_arguments(
            config, path, hot_restart=place, own_log_format=not version.sets_log_format
        )
        try:
            directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        except OSError as error:
            raise EnvoySupervisorError(f"cannot make {directory}: {error.strerror}") from error
        process = spawn([str(config.binary), *arguments])
        child = Child(
            member, version, process, config_path=path, files=files.pop_all(), clock=clock
        )
    log.info(
        "envoy started",
        extra={"pid": process.pid, "epoch": member.epoch, "binary": str(config.binary)},
    )
    return child


def _place(member: Member, directory: Path) -> HotRestart:
    file = id_file(directory, member.family)
    path = socket_path(file)
    if path is None:
        log.warning("the directory's path is too long for sockets, hot restart uses abstract ones")
    if member.epoch == 0:
        return HotRestart(id_file=file, socket_path=path)
    forget_failed_child(file)
    base_id = read_base_id(file)
    return HotRestart(
        id_file=file,
        socket_path=path,
        base_id=base_id,
        epoch=member.epoch,
        # Who has died cannot be asked for statistics any more.
        parent_statistics=not member.heir,
    )
