"""Follows an Envoy's health for as long as the agent runs, over its crashes too."""

import asyncio
import logging
from collections.abc import Callable, Mapping
from typing import Protocol

import envoy_supervisor
from mesh_agent._program_text import release as release_program_text
from mesh_agent.readiness._envoy_health import STATS_FILTER, EnvoyHealth, judge
from mesh_lifecycle import Condition

log = logging.getLogger(__name__)


class HasStats(Protocol):
    """The admin interface, as far as it is asked here; raises `AdminError`."""

    async def stats(self, pattern: str, /) -> Mapping[str, int | str]: ...


class WatchedEnvoy(Protocol):
    """An Envoy that is started again when it ends."""

    @property
    def pid(self) -> int: ...

    @property
    def admin(self) -> HasStats: ...

    async def wait_down(self) -> None:
        """Wait until one ends that leaves none to serve."""


async def watch_health(
    envoy: WatchedEnvoy,
    ready: Condition,
    *,
    poll_s: float,
    control_plane: Callable[[], str],
) -> None:
    """Read Envoy's stats until all is good, then wait for its end, and again. Runs until cancelled.

    control_plane: how it stands with the control plane, for
    an Envoy that has nothing from it.
    """
    while True:
        await _until_good(envoy, ready, poll_s, control_plane)
        ready.set()
        log.info("envoy ready", extra={"pid": envoy.pid})
        release_program_text()  # the start is over
        await envoy.wait_down()
        ready.unset("envoy ended by itself and is being started again")


async def _until_good(
    envoy: WatchedEnvoy, ready: Condition, poll_s: float, control_plane: Callable[[], str]
) -> None:
    seen = EnvoyHealth()
    while True:
        try:
            stats = await envoy.admin.stats(STATS_FILTER)
        except envoy_supervisor.AdminError as error:
            ready.unset(str(error))
        else:
            seen, fault = judge(seen, stats, control_plane=control_plane())
            if seen.good:
                return
            ready.unset(fault or "not yet")
        await asyncio.sleep(poll_s)
