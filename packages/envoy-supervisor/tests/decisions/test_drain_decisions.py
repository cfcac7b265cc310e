from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from envoy_supervisor.decisions._drain_decisions import (
    MOST_FAILURES,
    Drain,
    DrainStep,
    after_failure,
    after_reading,
    plan_drain,
)


def begin(*, minimum_s: float = 0, total_s: float = 10, exit_when_idle: bool = True) -> Drain:
    return Drain(
        plan=plan_drain(
            now=0,
            termination_drain_s=total_s,
            minimum_drain_s=minimum_s,
            exit_when_idle=exit_when_idle,
        )
    )


def steps(drain: Drain, readings: list[tuple[float, int | None]]) -> list[DrainStep]:
    seen = []
    for now, count in readings:
        drain = after_reading(drain, count, now=now)
        seen.append(drain.step)
    return seen


def test_idle_ends_it_after_one_look_with_the_doors_closed() -> None:
    assert steps(begin(), [(1, 2), (2, 0), (2.1, 1), (3, 0)]) == [
        DrainStep.ASKING,
        DrainStep.REFUSING,
        DrainStep.REFUSING,
        DrainStep.DONE,
    ]


def test_idle_counts_only_after_the_minimum() -> None:
    assert steps(begin(minimum_s=5), [(1, 0), (4.9, 0), (5, 0)]) == [
        DrainStep.ASKING,
        DrainStep.ASKING,
        DrainStep.REFUSING,
    ]


def test_nothing_new_is_accepted_shortly_before_the_deadline() -> None:
    assert steps(begin(), [(8.9, 1), (9, 1), (9.9, 1), (10, 1)]) == [
        DrainStep.ASKING,
        DrainStep.REFUSING,
        DrainStep.REFUSING,
        DrainStep.DONE,
    ]


def test_not_knowing_is_not_being_idle() -> None:
    assert steps(begin(), [(1, None), (8, None)]) == [DrainStep.ASKING, DrainStep.ASKING]


def test_waiting_all_the_time_can_be_asked_for() -> None:
    assert steps(begin(exit_when_idle=False), [(1, 0), (8, 0), (9, 0), (9.1, 0)]) == [
        DrainStep.ASKING,
        DrainStep.ASKING,
        DrainStep.REFUSING,
        DrainStep.DONE,
    ]


def test_only_failures_in_a_row_end_it() -> None:
    drain = begin()
    for _ in range(MOST_FAILURES - 1):
        drain = after_failure(drain, now=1)
    drain = after_reading(drain, 1, now=1)
    for _ in range(MOST_FAILURES - 1):
        drain = after_failure(drain, now=1)
    assert drain.step is DrainStep.ASKING
    assert after_failure(drain, now=1).step is DrainStep.DONE


@given(
    total_s=st.floats(min_value=0, max_value=100),
    minimum_s=st.floats(min_value=0, max_value=200),
    exit_when_idle=st.booleans(),
    readings=st.lists(
        st.tuples(st.floats(min_value=0, max_value=150), st.none() | st.integers(0, 3))
    ),
)
def test_no_readings_make_it_outlast_its_deadline(
    total_s: float,
    minimum_s: float,
    *,
    exit_when_idle: bool,
    readings: list[tuple[float, int | None]],
) -> None:
    drain = begin(total_s=total_s, minimum_s=minimum_s, exit_when_idle=exit_when_idle)
    for now, count in sorted(readings, key=lambda reading: reading[0]):
        drain = after_reading(drain, count, now=now)
        if now >= total_s:
            assert drain.step is DrainStep.DONE
    assert after_reading(drain, 9, now=total_s).step is DrainStep.DONE
