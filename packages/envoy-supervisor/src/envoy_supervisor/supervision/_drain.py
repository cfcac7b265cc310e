"""Waits, when stopping, for open connections to end: carries out the drain decisions."""

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
from envoy_supervisor.decisions._state import Stage
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
    """Wait until no connection is open, the deadline has come, or Envoy has ended by itself.

    begun: when the stop began; the deadline is counted from then.
    """
    drain = Drain(
        plan=plan_drain(
            now=begun,
            termination_drain_s=config.termination_drain.total_seconds(),
            minimum_drain_s=config.minimum_drain.total_seconds(),
            exit_when_idle=config.exit_when_idle,
        )
    )
    process = supervisor.current
    interval_s = IDLE_POLL_S
    while True:
        before = drain.step
        left_s = drain.plan.deadline - clock.monotonic()
        try:
            stats = await answered_within(left_s, process.admin.stats(CONNECTIONS_FILTER))
        except AdminError as error:
            log.debug("open connections are not known", extra={"error": str(error)})
            if _admin_closed(supervisor):
                drain = after_reading(drain, None, now=clock.monotonic())
            else:
                drain = after_failure(drain, now=clock.monotonic())
        else:
            count = active_connections(stats, process.version.own_listeners)
            if count == 0 and _not_all_reported(supervisor, clock):
                count = None
            log.debug("connections still open", extra={"count": count, "step": str(drain.step)})
            drain = after_reading(drain, count, now=clock.monotonic())
        if drain.step is DrainStep.DONE:
            return
        if drain.step is not before:
            await _refuse(process.admin, left_s=drain.plan.deadline - clock.monotonic())
            continue
        plan = drain.plan
        step_ends = plan.refuse_at if drain.step is DrainStep.ASKING else plan.deadline
        left_s = max(0.0, step_ends - clock.monotonic())
        if await supervisor.ended_within(min(interval_s, left_s)):
            return
        interval_s = min(IDLE_POLL_SLOW_S, interval_s * 1.5)


async def answered_within(seconds: float, call: Coroutine[object, object, Answer]) -> Answer:
    """Ask Envoy, which may hang, for at most so long. Raises `AdminError`."""
    try:
        async with asyncio.timeout(max(0.0, seconds)):
            return await call
    except TimeoutError as error:
        raise AdminError("envoy does not answer in the time that is left") from error


def _admin_closed(supervisor: Supervisor) -> bool:
    """Return whether a process finishes requests that has no admin interface any more.

    Its child has closed the admin interface, and is gone. That no answer comes says nothing then.
    """
    state = supervisor.state
    if state.first(Stage.READY) is not None:
        return state.admin_may_be_closed
    return state.first(Stage.RETIRING) is not None


def _not_all_reported(supervisor: Supervisor, clock: Clock) -> bool:
    """Return whether the process that answers may not report all connections.

    A parent has no admin interface any more; its child adds the parent's numbers to its own each
    time it brings its statistics up to date. The parent's numbers only go down, as it accepts
    no connections, so a late zero is a true one.
    """
    state, current = supervisor.state, supervisor.current
    if state.admin_may_be_closed and state.first(Stage.ENDING) is not None:
        # The child that should have taken over still answers, at its parent's address.
        return True
    retiring = state.first(Stage.RETIRING)
    if retiring is None:
        return False
    child = current.started_as
    if (retiring.series, retiring.epoch + 1) != (child.series, child.epoch):
        # The child that would have reported them has died.
        return True
    reported_at = current.ready_at + current.version.stats_flush_s + 1.0
    return clock.monotonic() < reported_at


async def _refuse(admin: AdminClient, *, left_s: float) -> None:
    try:
        await answered_within(left_s, admin.drain_listeners())
    except AdminError as error:
        log.debug("envoy was not told to stop accepting", extra={"error": str(error)})
