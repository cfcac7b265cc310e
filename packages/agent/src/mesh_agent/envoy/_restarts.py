"""Replaces the running Envoy when what it is started with has changed; no request is lost."""

import asyncio
import contextlib
import dataclasses
import logging
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path

from envoy_supervisor import Envoy, EnvoyConfig, EnvoySupervisorError, RestartRefused
from mesh_agent.envoy._bootstrap_files import BootstrapFiles
from mesh_filewatch import FileStat, ReadTimedOut, file_stat, run_in_thread, watching

log = logging.getLogger(__name__)


class Restarts:
    """Hot restarts of one Envoy, asked for or when a file changes.

    obstacle: why a new Envoy could not get ready now, None if it could. One that is tried all the
    same would cost the old one its admin interface before it is given up. While a change waits
    for it, it is asked for again after `obstacle_look_s`.
    """

    def __init__(
        self,
        envoy: Envoy,
        config: EnvoyConfig,
        files: BootstrapFiles,
        *,
        obstacle: Callable[[], str | None],
        obstacle_look_s: float = 2.0,
    ) -> None:
        self._envoy = envoy
        self._config = config
        self._files = files
        self._obstacle = obstacle
        self._obstacle_look_s = obstacle_look_s
        self.follows = False
        """Whether a change of the files from now on is seen."""

    async def restart(self) -> bool:
        """Look at binary, bootstrap and override anew; False if they are what runs already.

        Raises `EnvoySupervisorError` if the new Envoy was refused; the old one serves on.
        """
        try:
            if (reason := self._obstacle()) is not None:
                raise RestartRefused(reason)
            arguments = await self._override_arguments()
            wanted = dataclasses.replace(self._config, extra_args=arguments)
            replaced = await self._envoy.restart(wanted)
        except EnvoySupervisorError as error:
            log.error("envoy was not restarted", extra={"reason": str(error)})
            raise
        if replaced:
            status = self._envoy.status
            log.info("envoy was replaced", extra={"pid": status.pid, "epoch": status.epoch})
        return replaced

    async def follow(self) -> None:
        """Restart whenever one of the user's own files has changed. Runs until cancelled.

        A file that is gone, or whose mount hangs, is no reason to give up what runs.
        """
        paths = self._files.paths
        used: tuple[FileStat | None, ...] | None = None
        async with watching() as watch:
            while True:
                await watch.follow(paths)
                now = await signature(paths)
                waiting = False
                if used is None:
                    used, self.follows = now, True
                elif now != used and None not in now:
                    waiting = self._obstacle() is not None
                    if not waiting:
                        used = now
                        # A refusal is in the log, and the next change may be better.
                        with contextlib.suppress(EnvoySupervisorError):
                            await self.restart()
                await watch.wait(self._obstacle_look_s if waiting else None)

    async def _override_arguments(self) -> tuple[str, ...]:
        override = self._files.override
        if override is None:
            return ()
        return await run_in_thread(self._files.override_arguments, path=override, timeout_s=None)


async def signature(paths: Sequence[Path]) -> tuple[FileStat | None, ...]:
    """What becomes another when a file is written, replaced, made or removed."""
    return tuple(await asyncio.gather(*map(_stamp, paths)))


async def _stamp(path: Path) -> FileStat | None:
    try:
        return await run_in_thread(partial(file_stat, path), path=path, key=("stamp", path))
    except ReadTimedOut:
        return None
