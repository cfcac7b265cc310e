"""Verdicts from outcomes, and the watch that makes both."""

from collections.abc import Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mesh_lifecycle.testing import ManualClock
from mesh_probes import HealthState, Outcome, Thresholds, Verdict, watching_health

GOOD = Outcome(healthy=True, status=200)


def bad(reason: str = "down") -> Outcome:
    return Outcome(healthy=False, status=500, reason=reason)


def verdicts(thresholds: Thresholds, outcomes: list[bool]) -> list[bool | None]:
    state = HealthState(thresholds)
    recorded = [state.record(GOOD if healthy else bad()) for healthy in outcomes]
    return [None if verdict is None else verdict.healthy for verdict in recorded]


@given(st.lists(st.booleans(), max_size=40), st.integers(1, 5), st.integers(1, 5))
def test_a_verdict_is_a_change_after_enough_in_a_row(
    outcomes: list[bool], success: int, failure: int
) -> None:
    expected: list[bool | None] = []
    verdict: bool | None = None
    for end in range(1, len(outcomes) + 1):
        latest = outcomes[end - 1]
        needed = success if latest else failure
        enough = end >= needed and outcomes[end - needed : end] == [latest] * needed
        changed = enough and verdict is not latest
        verdict = latest if changed else verdict
        expected.append(latest if changed else None)
    assert verdicts(Thresholds(success=success, failure=failure), outcomes) == expected


def test_the_verdict_has_the_reason_of_the_outcome_that_decided() -> None:
    state = HealthState(Thresholds(failure=2))
    assert state.healthy is None
    assert state.record(bad("first")) is None
    assert state.record(bad("second")) == Verdict(healthy=False, reason="second")
    assert state.record(bad("third")) is None
    assert state.healthy is False


class Application:
    """Has an outcome for each check, and remembers when it was checked."""

    def __init__(self, clock: ManualClock, *outcomes: Outcome, takes_s: float = 0) -> None:
        self._clock = clock
        self._outcomes: Iterator[Outcome] = iter(outcomes)
        self._takes_s = takes_s
        self.checked_at: list[float] = []

    async def check(self) -> Outcome:
        self.checked_at.append(self._clock.monotonic())
        if self._takes_s:
            await self._clock.sleep(self._takes_s)
        return next(self._outcomes, GOOD)


async def test_changes_are_reported_once_from_the_initial_delay_on() -> None:
    clock, reported = ManualClock(), list[Verdict]()
    application = Application(clock, bad("a"), bad("b"), GOOD, GOOD, bad("c"))
    thresholds = Thresholds(initial_delay_s=5, period_s=10, success=2)
    async with watching_health(
        application.check, thresholds, report=reported.append, clock=clock
    ) as state:
        await clock.advance(4.9)
        assert application.checked_at == []
        await clock.advance(0.1)
        assert reported == [Verdict(healthy=False, reason="a")]
        await clock.advance(29.9)
        assert len(reported) == 1
        await clock.advance(0.1)
        assert reported[1:] == [Verdict(healthy=True)]
        assert state.healthy
        await clock.advance(10)
        assert reported[2:] == [Verdict(healthy=False, reason="c")]
    assert application.checked_at == [5, 15, 25, 35, 45]


@pytest.mark.parametrize(("takes_s", "expected"), [(4, [0, 10, 20]), (15, [0, 15, 30])])
async def test_the_period_is_from_start_to_start(takes_s: float, expected: list[float]) -> None:
    clock = ManualClock()
    application = Application(clock, takes_s=takes_s)
    async with watching_health(application.check, Thresholds(), report=lambda _: None, clock=clock):
        for _ in range(30):
            await clock.advance(1)
    assert application.checked_at[:3] == expected


async def test_the_application_is_not_asked_before_all_is_ready() -> None:
    clock, reported = ManualClock(), list[Verdict]()
    reasons = ["envoy: no configuration", "dns: no table"]
    application = Application(clock)
    async with watching_health(
        application.check,
        Thresholds(),
        report=reported.append,
        not_ready=lambda: reasons,
        clock=clock,
    ):
        await clock.advance(10)
        assert reported == [Verdict(healthy=False, reason="; ".join(reasons))]
        assert application.checked_at == []
        reasons.clear()
        await clock.advance(10)
        assert reported[1:] == [Verdict(healthy=True)]


async def test_a_report_that_fails_ends_the_block() -> None:
    clock = ManualClock()

    def report(verdict: Verdict) -> None:
        raise LookupError(verdict)

    with pytest.raises(LookupError):
        async with watching_health(
            Application(clock).check, Thresholds(), report=report, clock=clock
        ):
            await clock.advance(60)
