"""Decides, when stopping, how long to wait for open connections, and when to stop accepting.

Three steps share one deadline. Clients are first asked to leave while new connections are still
taken; then no new connection is accepted and the open ones go on; then Envoy exits. The first two
end early when no connection is open.
"""

from __future__ import annotations

from enum import StrEnum

import msgspec

LAST_STEP_SHARE = 0.2
LAST_STEP_MOST_S = 1.0
MOST_FAILURES = 5


class DrainStep(StrEnum):
    """The step that a drain is at."""

    ASKING = "asking clients to leave"
    REFUSING = "refusing new connections"
    DONE = "done"


class DrainPlan(msgspec.Struct, frozen=True, kw_only=True):
    """The times of one drain, in seconds on a monotonic clock.

    idle_from: being idle ends the first step only after this; None: never.
    refuse_at: no new connection is accepted after this.
    deadline: connections that are still open then are cut.
    """

    idle_from: float | None
    refuse_at: float
    deadline: float


class Drain(msgspec.Struct, frozen=True, kw_only=True):
    """The state of a drain. `failures` counts readings that failed in a row."""

    plan: DrainPlan
    step: DrainStep = DrainStep.ASKING
    failures: int = 0


def plan_drain(
    *, now: float, termination_drain_s: float, minimum_drain_s: float, exit_when_idle: bool
) -> DrainPlan:
    """Spreads the available time over the steps."""
    deadline = now + termination_drain_s
    last_step = min(LAST_STEP_MOST_S, LAST_STEP_SHARE * termination_drain_s)
    return DrainPlan(
        idle_from=min(deadline, now + minimum_drain_s) if exit_when_idle else None,
        refuse_at=deadline - last_step,
        deadline=deadline,
    )


def after_reading(drain: Drain, connections: int | None, *, now: float) -> Drain:
    """Return the drain after a count of open connections; None when the count is unknown.

    An unknown count is not taken for zero: then the whole time is used.
    """
    return _advanced(drain, idle=connections == 0, now=now, failures=0)


def after_failure(drain: Drain, *, now: float) -> Drain:
    """Return the drain after a failed reading. Several in a row mean that Envoy is gone."""
    failures = drain.failures + 1
    if failures >= MOST_FAILURES:
        return Drain(plan=drain.plan, step=DrainStep.DONE, failures=failures)
    return _advanced(drain, idle=False, now=now, failures=failures)


def _advanced(drain: Drain, *, idle: bool, now: float, failures: int) -> Drain:
    plan, step = drain.plan, drain.step
    if now >= plan.deadline:
        step = DrainStep.DONE
    elif step is DrainStep.ASKING:
        may_end = plan.idle_from is not None and now >= plan.idle_from
        if (idle and may_end) or now >= plan.refuse_at:
            step = DrainStep.REFUSING
    elif step is DrainStep.REFUSING and idle:
        step = DrainStep.DONE
    return Drain(plan=plan, step=step, failures=failures)
