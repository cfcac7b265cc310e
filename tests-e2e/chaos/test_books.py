"""The books: which failures are allowed, and what is said of levels and certificates."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mesh_chaos._books import (
    CUT_AFTER_S,
    SETTLE_S,
    Absence,
    Cause,
    Death,
    Failed,
    Lane,
    Presented,
    account,
    cause_of,
    certificate_faults,
    grown,
    level_of,
)

LANE = Lane(name="http", passes=frozenset({"caller", "backend"}), needs=frozenset({"caller"}))
DEATH = Death(workload="backend", begun=100, done=100.2)
ABSENCE = Absence(workload="caller", begun=200, ended=204)


def failed(sent_at: float, failed_at: float) -> Failed:
    return Failed(lane="http", sent_at=sent_at, failed_at=failed_at, what="closed unanswered")


@pytest.mark.parametrize(
    ("sent_at", "failed_at", "cause"),
    [
        pytest.param(99.9, 100.1, Cause.IN_FLIGHT, id="under way, and cut in the moment"),
        pytest.param(90, 100.1, Cause.IN_FLIGHT, id="long under way"),
        pytest.param(99.9, 99.99, None, id="failed before the kill"),
        pytest.param(100.2 + SETTLE_S + 0.1, 101, None, id="sent when it was known to be dead"),
        pytest.param(99.9, 100.2 + CUT_AFTER_S + 0.1, None, id="failed too late to be cut"),
        pytest.param(201, 201.1, Cause.AWAY, id="sent while the workload was away"),
        pytest.param(199.9, 200.1, Cause.AWAY, id="under way when the workload was taken away"),
        pytest.param(204.1, 204.2, None, id="sent when it was back"),
        pytest.param(198, 199, None, id="failed before it was away"),
    ],
)
def test_a_failure_is_allowed_only_by_what_was_killed(
    sent_at: float, failed_at: float, cause: Cause | None
) -> None:
    assert cause_of(failed(sent_at, failed_at), LANE, [DEATH], [ABSENCE]) is cause


def test_the_end_of_an_envoy_that_is_not_passed_excuses_nothing() -> None:
    elsewhere = Death(workload="store", begun=100, done=100.2)
    assert cause_of(failed(99.9, 100.1), LANE, [elsewhere], []) is None


def test_a_replica_that_is_away_excuses_nothing() -> None:
    replica = Absence(workload="backend", begun=200, ended=204)
    assert cause_of(failed(201, 201.1), LANE, [], [replica]) is None


def test_a_refused_connection_is_not_in_flight() -> None:
    at_once = replace(failed(99.9, 100.1), connected=False)
    assert cause_of(at_once, LANE, [DEATH], []) is None
    further_on = replace(
        failed(99.9, 100.1), what="status 503: upstream connect error: Connection refused"
    )
    assert cause_of(further_on, LANE, [DEATH], []) is None


def test_a_workload_that_is_away_refuses_connections() -> None:
    refused = replace(failed(201, 201.1), connected=False)
    assert cause_of(refused, LANE, [], [ABSENCE]) is Cause.AWAY


times = st.floats(min_value=0, max_value=1000)


@given(times, times)
def test_without_a_kill_nothing_is_allowed(sent_at: float, took_s: float) -> None:
    assert cause_of(failed(sent_at, sent_at + took_s), LANE, [], []) is None


@given(st.lists(st.tuples(times, times)), st.integers(min_value=0, max_value=10_000))
def test_every_request_is_in_the_account_once(
    spans: list[tuple[float, float]], answered: int
) -> None:
    failures = [failed(sent_at, sent_at + took_s) for sent_at, took_s in spans]
    counted = account(
        LANE, answered=answered, failures=failures, deaths=[DEATH], absences=[ABSENCE]
    )
    assert counted.sent == answered + len(failures)


def test_a_level_is_not_moved_by_single_samples() -> None:
    level = level_of("memory", [50.0] * 20 + [500.0] + [50.0] * 29 + [500.0])
    assert level is not None
    assert grown(level, share=0.1, least=1) is None


def test_a_leak_is_reported() -> None:
    level = level_of("memory of it", [50.0 + 2 * number for number in range(50)])
    assert level is not None
    assert grown(level, share=0.25, least=10) == "memory of it grew from 80 to 140"


def test_few_samples_say_nothing() -> None:
    assert level_of("memory", [1.0] * 9) is None


def presented(serial: str, *, seen_at: float = 10) -> Presented:
    return Presented(workload="store", serial=serial, not_after=60, seen_at=seen_at)


def faults(*seen: Presented, seconds: float = 40) -> tuple[str, ...]:
    issued = {"store": frozenset({"a", "b"})}
    return certificate_faults(seen, issued, seconds=seconds, renewal_s=10, slack_s=5)


def test_certificates_that_were_issued_are_good() -> None:
    assert faults(presented("a"), presented("b")) == ()


def test_a_certificate_that_was_never_issued_is_reported() -> None:
    assert faults(presented("c")) == ("store presented c, which was never issued",)


def test_an_expired_certificate_is_reported() -> None:
    assert faults(presented("a", seen_at=70)) == ("store presented a 10 s after it had expired",)


def test_a_rotation_that_stands_still_is_reported() -> None:
    assert faults(presented("a"), seconds=100) == (
        "store presented 1 certificates in 100 s, at least 2 were to be expected",
    )
