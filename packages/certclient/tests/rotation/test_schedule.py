import random
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from certclient import renewal_time
from certclient.rotation._schedule import (
    OUTAGE_RETRY_S,
    REFUSED_RETRY_S,
    Schedule,
    after_failure,
    after_success,
    answer_timeout,
    retry_delay,
    seconds_until_due,
)

ISSUED = datetime(2030, 1, 1, tzinfo=UTC)
HOUR = timedelta(hours=1)


@pytest.mark.parametrize(
    ("ratio", "minutes"), [(0.5, 30), (0.25, 45), (0.75, 15), (1.0, 0), (0.0, 60)]
)
def test_renewal_is_due_when_the_ratio_of_the_lifetime_is_left(ratio: float, minutes: int) -> None:
    due = renewal_time(ISSUED, ISSUED + HOUR, ratio, 0, random.Random())
    assert due == ISSUED + timedelta(minutes=minutes)


def test_an_expired_certificate_is_due_at_once() -> None:
    issued = ISSUED.timestamp()
    schedule = Schedule(issued_at=issued - 7200, renew_at=issued - 1800)
    assert seconds_until_due(schedule, now=issued, monotonic=0, requested=False) == 0


@given(
    ratio=st.floats(0, 1),
    jitter=st.floats(0, 1),
    lifetime=st.timedeltas(timedelta(seconds=1), timedelta(days=365)),
    seed=st.integers(),
)
def test_renewal_lies_within_ratio_and_jitter(
    ratio: float, jitter: float, lifetime: timedelta, seed: int
) -> None:
    expires = ISSUED + lifetime
    due = renewal_time(ISSUED, expires, ratio, jitter, random.Random(seed))
    assert ISSUED <= due <= expires
    left = (expires - due) / lifetime
    assert max(0, ratio - jitter) - 1e-5 <= left <= min(1, ratio + jitter) + 1e-5


def test_renewals_of_many_spread_over_the_jitter() -> None:
    rng = random.Random(7)
    due = {renewal_time(ISSUED, ISSUED + HOUR, 0.5, 0.1, rng) for _ in range(100)}
    assert max(due) - min(due) > timedelta(minutes=6)


@given(
    drawn=st.floats(0.01, 60),
    remaining=st.floats(-1e6, 1e6),
    refused=st.booleans(),
    spread=st.floats(0, 1),
)
def test_a_retry_is_never_at_once_and_never_after_the_end(
    *, drawn: float, remaining: float, refused: bool, spread: float
) -> None:
    delay = retry_delay(drawn, remaining_s=remaining, refused=refused, spread=spread)
    assert min(drawn, 0.25) <= delay <= drawn
    if remaining >= 1:
        assert delay <= remaining / 4


@given(drawn=st.floats(0.01, 60), refused=st.booleans(), spread=st.floats(0, 1))
def test_without_a_certificate_seconds_pass_between_tries_whatever_the_authority_says(
    *, drawn: float, refused: bool, spread: float
) -> None:
    bound = REFUSED_RETRY_S if refused else OUTAGE_RETRY_S
    delay = retry_delay(drawn, remaining_s=0, refused=refused, spread=spread)
    assert delay <= bound
    assert delay >= min(drawn, 0.6 * bound - 1e-9)


def test_without_a_certificate_workloads_do_not_ask_in_step() -> None:
    delays = {retry_delay(60, remaining_s=0, refused=True, spread=each / 9) for each in range(10)}
    assert len(delays) == 10


@given(maximum=st.floats(1, 120), remaining=st.floats(-1e6, 1e6))
def test_a_silent_authority_leaves_time_for_other_tries(maximum: float, remaining: float) -> None:
    timeout = answer_timeout(maximum, remaining_s=remaining)
    assert 1 <= timeout <= maximum
    if remaining >= 6:
        assert timeout <= remaining / 3


def test_a_clock_set_back_before_the_issue_is_a_reason_to_renew() -> None:
    schedule = Schedule(issued_at=1e9, renew_at=1e9 + 3600)
    assert seconds_until_due(schedule, now=1e9 - 5, monotonic=0, requested=False) == 3605
    assert seconds_until_due(schedule, now=1e9 - 86400, monotonic=0, requested=False) == 0


def test_an_ask_waits_for_the_spacing_only() -> None:
    schedule = Schedule(scheduled_after=60, requested_after=1)
    assert seconds_until_due(schedule, now=0, monotonic=0, requested=True) == 1
    assert seconds_until_due(schedule, now=0, monotonic=0, requested=False) == 60


def test_after_a_success_a_due_renewal_waits_a_second_and_a_requested_one_does_not() -> None:
    schedule = after_success(now=1e9, monotonic=100, renews_at=datetime.fromtimestamp(1e9, UTC))
    assert seconds_until_due(schedule, now=1e9, monotonic=100, requested=False) == 1
    assert seconds_until_due(schedule, now=1e9, monotonic=100, requested=True) == 0


@pytest.mark.parametrize(("delay_s", "requested_s"), [(0.25, 0.25), (30, 1)])
def test_after_a_failure_a_requested_attempt_waits_for_the_delay_but_at_most_a_second(
    delay_s: float, requested_s: float
) -> None:
    schedule = after_failure(Schedule(), monotonic=100, delay_s=delay_s)
    assert seconds_until_due(schedule, now=0, monotonic=100, requested=False) == delay_s
    assert seconds_until_due(schedule, now=0, monotonic=100, requested=True) == requested_s
