"""Waiting, when stopping, for open connections to end."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable

from envoy_supervisor._address import Address
from envoy_supervisor._admin import AdminClient
from envoy_supervisor._config import EnvoyConfig
from envoy_supervisor._drain import Drain, DrainStep, after_failure, after_reading, plan_drain
from envoy_supervisor._errors import AdminError
from envoy_supervisor._stats import active_connections
from mesh_lifecycle import Clock

log = logging.getLogger(__name__)

IDLE_POLL_S = 0.05
IDLE_POLL_SLOW_S = 0.5
CONNECTIONS_FILTER = r"^listener\..*downstream_cx_active$"


async def until_idle(
    config: EnvoyConfig,
    admin: AdminClient,
    own_listeners: tuple[Address, ...],
    *,
    clock: Clock,
    ended_within: Callable[[float], Awaitable[bool]],
    others_serve: Callable[[], bool],
) -> None:
    """Wait until nothing is open, the deadline has come, or Envoy has ended by itself.

    others_serve: whether there are processes that still finish requests and cannot be asked.
    """
    drain = Drain(
        plan=plan_drain(
            now=clock.monotonic(),
            termination_drain_s=config.termination_drain.total_seconds(),
            minimum_drain_s=config.minimum_drain.total_seconds(),
            exit_when_idle=config.exit_when_idle,
        )
    )
    interval_s = IDLE_POLL_S
    while True:
        before = drain.step
        try:
            stats = await admin.stats(CONNECTIONS_FILTER)
        except AdminError as error:
            log.debug("open connections are not known", extra={"error": str(error)})
            drain = after_failure(drain, now=clock.monotonic())
        else:
            count = active_connections(stats, own_listeners)
            if count == 0 and others_serve():
                count = None
            log.debug("connections still open", extra={"count": count, "step": str(drain.step)})
            drain = after_reading(drain, count, now=clock.monotonic())
        if drain.step is DrainStep.DONE:
            return
        if drain.step is not before:
            await _refuse(admin)
            continue
        plan = drain.plan
        step_ends = plan.refuse_at if drain.step is DrainStep.ASKING else plan.deadline
        left_s = max(0.0, step_ends - clock.monotonic())
        if await ended_within(min(interval_s, left_s)):
            return
        interval_s = min(IDLE_POLL_SLOW_S, interval_s * 1.5)


async def _refuse(admin: AdminClient) -> None:
    try:
        await admin.drain_listeners()
    except AdminError as error:
        log.debug("envoy was not told to stop accepting", extra={"error": str(error)})
