"""Waiting, when stopping, for open connections to end."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Coroutine
from typing import TypeVar

from envoy_supervisor._config import EnvoyConfig
from envoy_supervisor._errors import AdminError
from envoy_supervisor.admin._client import AdminClient
from envoy_supervisor.admin._open_connections import active_connections
from envoy_supervisor.decisions._drain_decisions import (
    Drain,
    DrainStep,
    after_failure,
    after_reading,
    plan_drain,
)
from envoy_supervisor.decisions._process_states import Stage
from envoy_supervisor.supervision._supervisor import Supervisor
from mesh_lifecycle import Clock

log = logging.getLogger(__name__)

Answer = TypeVar("Answer")

IDLE_POLL_S = 0.05
IDLE_POLL_SLOW_S = 0.5
CONNECTIONS_FILTER = r"^listener\..*downstream_cx_active$"


async def until_idle(
    supervisor: Supervisor, config: EnvoyConfig, *, begun: float, clock: Clock
) -> None:
    """Wait until nothing is open, the deadline has come, or Envoy has ended by itself.

    begun: when the stop began; what it may take is counted from then.
    """
    drain = Drain(
        plan=plan_drain(
            now=begun,
            termination_drain_s=config.termination_drain.total_seconds(),
            minimum_drain_s=config.minimum_drain.total_seconds(),
            exit_when_idle=config.exit_when_idle,
        )
    )
    child = supervisor.current
    interval_s = IDLE_POLL_S
    while True:
        before = drain.step
        left_s = drain.plan.deadline - clock.monotonic()
        try:
            stats = await answered_within(left_s, child.admin.stats(CONNECTIONS_FILTER))
        except AdminError as error:
            log.debug("open connections are not known", extra={"error": str(error)})
            if _unheard(supervisor):
                drain = after_reading(drain, None, now=clock.monotonic())
            else:
                drain = after_failure(drain, now=clock.monotonic())
        else:
            count = active_connections(stats, child.version.own_listeners)
            if count == 0 and _not_all_reported(supervisor, clock):
                count = None
            log.debug("connections still open", extra={"count": count, "step": str(drain.step)})
            drain = after_reading(drain, count, now=clock.monotonic())
        if drain.step is DrainStep.DONE:
            return
        if drain.step is not before:
            await _refuse(child.admin, left_s=drain.plan.deadline - clock.monotonic())
            continue
        plan = drain.plan
        step_ends = plan.refuse_at if drain.step is DrainStep.ASKING else plan.deadline
        left_s = max(0.0, step_ends - clock.monotonic())
        if await supervisor.ended_within(min(interval_s, left_s)):
            return
        interval_s = min(IDLE_POLL_SLOW_S, interval_s * 1.5)


async def answered_within(seconds: float, call: Coroutine[object, object, Answer]) -> Answer:
    """Ask Envoy, which may hang, for no longer than there is time; raises `AdminError`."""
    try:
        async with asyncio.timeout(max(0.0, seconds)):
            return await call
    except TimeoutError as error:
        raise AdminError("envoy does not answer in the time that is left") from error


def _unheard(supervisor: Supervisor) -> bool:
    """Whether a process finishes requests that has no admin interface any more.

    The next of its family has closed it, and is gone. That nobody answers says nothing then.
    """
    fleet = supervisor.fleet
    if fleet.first(Stage.READY) is not None:
        return fleet.blind
    return fleet.first(Stage.RETIRING) is not None


def _not_all_reported(supervisor: Supervisor, clock: Clock) -> bool:
    """Whether there may be connections that the process that answers does not report.

    An old process has no admin interface any more; the new one adds the old one's numbers to its
    own each time it brings its statistics up to date. They only go down: the old one accepts
    nothing, so a late zero is a true one.
    """
    fleet, current = supervisor.fleet, supervisor.current
    if fleet.blind and fleet.first(Stage.ENDING) is not None:
        # The one that should have taken over still answers, at the address of the one that serves.
        return True
    retiring = fleet.first(Stage.RETIRING)
    if retiring is None:
        return False
    if (retiring.family, retiring.epoch + 1) != (current.member.family, current.member.epoch):
        # The one that would have reported them has died.
        return True
    reported_at = current.ready_at + current.version.stats_flush_s + 1.0
    return clock.monotonic() < reported_at


async def _refuse(admin: AdminClient, *, left_s: float) -> None:
    try:
        await answered_within(left_s, admin.drain_listeners())
    except AdminError as error:
        log.debug("envoy was not told to stop accepting", extra={"error": str(error)})
