"""Hot restarts: replaces Envoy when its binary or bootstrap has changed; no request is lost."""

import asyncio
import contextlib
import dataclasses
import logging
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path

import xds_proxy
from envoy_supervisor import Envoy, EnvoyConfig, EnvoySupervisorError, RestartRefused
from mesh_agent.envoy._bootstrap_files import BootstrapFiles
from mesh_filewatch import FileStat, ReadTimedOut, file_stat, run_in_thread, watching

log = logging.getLogger(__name__)


class Restarts:
    """Hot restarts of one Envoy, asked for or when a file changes.

    obstacle: returns why a new Envoy could not get ready now, None if it could. To try one all the
        same would cost the old one its admin interface before the new one is given up.
    amended: changes the configuration for an Envoy that starts now.
    obstacle_look_s: after how long a change that waits for the obstacle to go looks again.
    """

    def __init__(
        self,
        envoy: Envoy,
        config: EnvoyConfig,
        files: BootstrapFiles,
        *,
        obstacle: Callable[[], str | None],
        amended: Callable[[EnvoyConfig], EnvoyConfig] = lambda config: config,
        obstacle_look_s: float = 2.0,
    ) -> None:
        self._envoy = envoy
        self._config = config
        self._files = files
        self._obstacle = obstacle
        self._amended = amended
        self._obstacle_look_s = obstacle_look_s
        self.follows = False
        """Whether changes of the files are watched by now."""

    async def restart(self) -> bool:
        """Replace Envoy if its binary, bootstrap or override changed; returns False if none did.

        Raises `EnvoySupervisorError` if the new Envoy was refused; the old one serves on.
        """
        try:
            if (reason := self._obstacle()) is not None:
                raise RestartRefused(reason)
            arguments = await self._override_arguments()
            wanted = dataclasses.replace(self._amended(self._config), extra_args=arguments)
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

        While a file is gone, or its mount hangs, the running Envoy is left as it is.
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
                        # The refusal has been logged; the next change of the files is tried again.
                        with contextlib.suppress(EnvoySupervisorError):
                            await self.restart()
                await watch.wait(self._obstacle_look_s if waiting else None)

    async def _override_arguments(self) -> tuple[str, ...]:
        override = self._files.override
        if override is None:
            return ()
        return await run_in_thread(self._files.override_arguments, path=override, timeout_s=None)


def obstacle_to_restart(relay: xds_proxy.Relay, files: BootstrapFiles) -> str | None:
    """Return why a new Envoy would not get its configuration now, None if it would.

    A bootstrap of the user's own may have its configuration from elsewhere than our relay.
    """
    status = relay.status
    if files.whole is not None or status.connected:
        return None
    return (
        "the control plane, where a new envoy gets its configuration, does not answer "
        f"({status.last_error or 'no connection yet'}): try again when it does"
    )


async def signature(paths: Sequence[Path]) -> tuple[FileStat | None, ...]:
    """Return a value that differs after a file was written, replaced, created or removed."""
    return tuple(await asyncio.gather(*map(_stamp, paths)))


async def _stamp(path: Path) -> FileStat | None:
    try:
        return await run_in_thread(partial(file_stat, path), path=path, key=("stamp", path))
    except ReadTimedOut:
        return None
