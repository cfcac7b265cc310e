"""Replaces the running Envoy when what it is started with has changed; no request is lost."""

import contextlib
import dataclasses
import logging
from collections.abc import Callable, Sequence
from pathlib import Path

from envoy_supervisor import Envoy, EnvoyConfig, EnvoySupervisorError, RestartRefused
from mesh_agent._bootstrap_files import BootstrapFiles
from mesh_lifecycle import Clock, SystemClock

log = logging.getLogger(__name__)

_POLL_S = 2.0


class Restarts:
    """Hot restarts of one Envoy, asked for or when a file changes.

    obstacle: why a new Envoy could not get ready now, None if it could. One that is tried all the
    same would cost the old one its admin interface before it is given up.
    """

    def __init__(
        self,
        envoy: Envoy,
        config: EnvoyConfig,
        files: BootstrapFiles,
        *,
        obstacle: Callable[[], str | None],
        clock: Clock | None = None,
    ) -> None:
        self._envoy = envoy
        self._config = config
        self._files = files
        self._obstacle = obstacle
        self._clock = clock or SystemClock()

    async def restart(self) -> bool:
        """Look at binary, bootstrap and override anew; False if they are what runs already.

        Raises `EnvoySupervisorError` if the new Envoy was refused; the old one serves on.
        """
        try:
            if (reason := self._obstacle()) is not None:
                raise RestartRefused(reason)
            arguments = self._files.override_arguments()
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

        A look every other second, at files that few have: cheaper than a thread that the kernel
        tells. A change is acted on when it has stayed for one look, so that a file is not read
        while it is being written. A file that is gone is no reason to give up what runs.
        """
        paths = self._files.paths
        used = seen = signature(paths)
        while True:
            await self._clock.sleep(_POLL_S)
            now = signature(paths)
            settled = now == seen and None not in now
            if settled and now != used and self._obstacle() is None:
                used = now
                # A refusal is in the log, and the next change may be better.
                with contextlib.suppress(EnvoySupervisorError):
                    await self.restart()
            seen = now


def signature(paths: Sequence[Path]) -> tuple[object, ...]:
    """What becomes another when a file is written, replaced, made or removed."""
    return tuple(_facts(path) for path in paths)


def _facts(path: Path) -> tuple[int, ...] | None:
    try:
        status = path.stat()
    except OSError:
        return None
    return status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns
