"""Hot restart when files change: what makes a running Envoy follow its configuration."""

from __future__ import annotations

import logging
from pathlib import Path

from envoy_supervisor._config import EnvoyConfig
from envoy_supervisor._envoy import Envoy
from envoy_supervisor._errors import EnvoySupervisorError
from envoy_supervisor._watch import changes
from mesh_lifecycle import Clock

log = logging.getLogger(__name__)


def followed_files(config: EnvoyConfig) -> tuple[Path, ...]:
    """The files whose change means another Envoy: bootstrap, binary, what the bootstrap names."""
    bootstrap = (config.bootstrap,) if isinstance(config.bootstrap, Path) else ()
    return (*bootstrap, config.binary, *config.watched_files)


async def restart_on_change(
    envoy: Envoy,
    config: EnvoyConfig,
    *,
    poll_s: float = 0.5,
    minimum_delay_s: float = 2.0,
    clock: Clock | None = None,
) -> None:
    """Restart Envoy each time one of its files has changed. Runs until cancelled.

    A change that Envoy refuses is logged by `Envoy.restart`, and the next one is tried.
    """
    async for _ in changes(
        followed_files(config), poll_s=poll_s, minimum_delay_s=minimum_delay_s, clock=clock
    ):
        await restart_or_log(envoy)


async def restart_or_log(envoy: Envoy) -> None:
    """Restart if something changed; what is wrong with it goes to the log."""
    try:
        if await envoy.restart():
            log.info("envoy was replaced", extra={"pid": envoy.pid, "epoch": envoy.status.epoch})
        else:
            log.info("nothing changed, envoy is not restarted")
    except EnvoySupervisorError as error:
        log.error("envoy was not restarted", extra={"reason": str(error)})
