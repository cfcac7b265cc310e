"""Hot restarts Envoy when its files change."""

from __future__ import annotations

import logging
from pathlib import Path

from envoy_supervisor._config import EnvoyConfig
from envoy_supervisor._envoy import Envoy
from envoy_supervisor._errors import EnvoySupervisorError
from envoy_supervisor._file_contents import watching_contents
from mesh_lifecycle import Clock, SystemClock

log = logging.getLogger(__name__)


def followed_files(config: EnvoyConfig) -> tuple[Path, ...]:
    """Return the files whose change means a restart: bootstrap, binary and watched files."""
    bootstrap = (config.bootstrap,) if isinstance(config.bootstrap, Path) else ()
    return (*bootstrap, config.binary, *config.watched_files)


async def restart_on_change(
    envoy: Envoy,
    config: EnvoyConfig,
    *,
    minimum_delay_s: float = 2.0,
    clock: Clock | None = None,
) -> None:
    """Restarts Envoy each time one of its files has changed. Runs until cancelled.

    minimum_delay_s: from one restart to the next; changes within it become one.

    A change that Envoy refuses is logged by `Envoy.restart`, and the next one is tried.
    """
    clock = clock or SystemClock()
    async with watching_contents(followed_files(config)) as contents:
        while True:
            await contents.wait_changed()
            await restart_or_log(envoy)
            await clock.sleep(minimum_delay_s)


async def restart_or_log(envoy: Envoy) -> None:
    """Restarts Envoy if a file has changed; logs why it could not."""
    try:
        if await envoy.restart():
            log.info("envoy was replaced", extra={"pid": envoy.pid, "epoch": envoy.status.epoch})
        else:
            log.info("nothing changed, envoy is not restarted")
    except EnvoySupervisorError as error:
        log.error("envoy was not restarted", extra={"reason": str(error)})
