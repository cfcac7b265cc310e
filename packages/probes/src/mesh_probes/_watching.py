"""Checks an application again and again for as long as a block runs, and reports each change."""

from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager

from mesh_lifecycle import Clock, SystemClock, in_background
from mesh_probes._health_state import HealthState, Thresholds, Verdict
from mesh_probes._outcome import Outcome


@asynccontextmanager
async def watching_health(
    check: Callable[[], Awaitable[Outcome]],
    thresholds: Thresholds,
    *,
    report: Callable[[Verdict], None],
    not_ready: Callable[[], Sequence[str]] = tuple,
    clock: Clock | None = None,
) -> AsyncIterator[HealthState]:
    """Run `check` in the background of the block, and call `report` with each new verdict.

    check: `functools.partial(mesh_probes.check, probe, host=...)`; it ends by itself.
    not_ready: reasons why the application can't be reached yet, such as a proxy before it that
    has no configuration. While there are any, they are the outcome and `check` is not called.
    An error of `check`, `not_ready` or `report` ends the block, which then raises it.
    """
    state = HealthState(thresholds)
    watch = _watch(
        check,
        thresholds,
        state=state,
        report=report,
        not_ready=not_ready,
        clock=clock or SystemClock(),
    )
    async with in_background(watch, name="health checks"):
        yield state


async def _watch(
    check: Callable[[], Awaitable[Outcome]],
    thresholds: Thresholds,
    *,
    state: HealthState,
    report: Callable[[Verdict], None],
    not_ready: Callable[[], Sequence[str]],
    clock: Clock,
) -> None:
    await clock.sleep(thresholds.initial_delay_s)
    while True:
        started = clock.monotonic()
        if reasons := not_ready():
            outcome = Outcome(healthy=False, status=500, reason="; ".join(reasons))
        else:
            outcome = await check()
        if verdict := state.record(outcome):
            report(verdict)
        await clock.sleep(started + thresholds.period_s - clock.monotonic())
