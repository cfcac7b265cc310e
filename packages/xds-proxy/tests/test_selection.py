"""Which control plane the next stream goes to, and when."""

from __future__ import annotations

import random
from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from xds_proxy.upstream._selection import AGAIN, ControlPlaneEntry, Selection

_NOW = datetime(2026, 1, 1, tzinfo=UTC)


class Time:
    def __init__(self) -> None:
        self.now = 1000.0

    def monotonic(self) -> float:
        return self.now


def _selection(time: Time, *addresses: str) -> Selection:
    return Selection(addresses, monotonic=time.monotonic, now=lambda: _NOW, rng=random.Random(1))


def _tried(selection: Selection) -> list[str]:
    return [entry.address for entry in selection.to_try()]


@pytest.fixture
def time() -> Time:
    return Time()


def test_the_first_that_is_not_known_to_fail_is_used(time: Time) -> None:
    selection = _selection(time, "a:1", "b:1", "c:1")
    first, second, _ = selection.entries
    assert _tried(selection) == ["a:1", "b:1", "c:1"]
    selection.on_failure(first, "connection refused")
    assert _tried(selection) == ["b:1", "c:1"]
    assert selection.wait_s() == 0
    selection.on_failure(second, "connection refused")
    assert _tried(selection) == ["c:1"]


def test_a_failed_one_comes_last_once_its_delay_is_over(time: Time) -> None:
    selection = _selection(time, "a:1", "b:1")
    first, second = selection.entries
    selection.on_failure(first, "connection refused")
    time.now += AGAIN.maximum_s
    assert _tried(selection) == ["b:1", "a:1"]
    selection.on_failure(second, "no answer")
    assert _tried(selection) == ["a:1"]


def test_where_all_fail_there_is_a_delay_and_a_caller_that_does_not_wait_tries_all(
    time: Time,
) -> None:
    selection = _selection(time, "a:1", "b:1")
    for entry in selection.entries:
        selection.on_failure(entry, "connection refused")
    assert 0 < selection.wait_s() <= AGAIN.initial_s * (1 + AGAIN.jitter)
    assert _tried(selection) == ["a:1", "b:1"]
    time.now += selection.wait_s()
    assert selection.wait_s() == 0


def test_delays_grow_while_it_fails_and_failures_of_one_moment_count_once(time: Time) -> None:
    selection = _selection(time, "a:1")
    (entry,) = selection.entries
    waits = []
    for _ in range(60):
        for _ in range(10):  # as many streams as find it out
            selection.on_failure(entry, "connection refused")
        waits.append(selection.wait_s())
        time.now += selection.wait_s()
    assert waits[0] < 0.2
    assert max(waits) <= AGAIN.maximum_s + 0.001
    assert max(waits[-20:]) > 5 * waits[0]


def test_a_stream_that_lasted_begins_the_delays_again_and_a_short_one_does_not(time: Time) -> None:
    selection = _selection(time, "a:1")
    (entry,) = selection.entries
    for _ in range(40):
        selection.on_failure(entry, "connection refused")
        time.now += selection.wait_s()
    selection.on_answer(entry)
    selection.on_end(entry, lasted_s=0.01)
    assert selection.wait_s() > 1
    time.now += selection.wait_s()
    selection.on_end(entry, lasted_s=60)
    assert selection.wait_s() < 0.2


def test_an_ordinary_end_does_not_pass_the_first_over(time: Time) -> None:
    selection = _selection(time, "a:1", "b:1")
    first, _ = selection.entries
    selection.on_answer(first)
    selection.on_end(first, lasted_s=1800)
    assert selection.wait_s() > 0
    assert _tried(selection) == ["a:1", "b:1"]


def test_a_failed_one_is_looked_at_while_a_later_one_is_used(time: Time) -> None:
    selection = _selection(time, "a:1", "b:1")
    first, second = selection.entries
    selection.on_failure(first, "connection refused")
    selection.on_answer(second)
    assert selection.to_look_at() == (first,)
    assert first.look.due_at > time.now
    selection.on_look(first, "connection refused")
    assert selection.to_look_at() == (first,)
    selection.on_look(first, None)
    assert selection.to_look_at() == ()
    assert _tried(selection) == ["a:1", "b:1"]


def test_looks_at_one_that_fails_each_stream_become_rare(time: Time) -> None:
    selection = _selection(time, "a:1", "b:1")
    first, second = selection.entries
    intervals = []
    for _ in range(12):
        selection.on_failure(first, "it ended the stream before its first answer")
        selection.on_answer(second)
        intervals.append(first.look.due_at - time.now)
        time.now = first.look.due_at
        selection.on_look(first, None)
    assert max(intervals[-3:]) > 10 * intervals[0]


def test_a_silent_one_with_a_stream_lets_all_others_be_looked_at(time: Time) -> None:
    selection = _selection(time, "a:1", "b:1")
    first, second = selection.entries
    first.streams = 1
    selection.on_failure(second, "connection refused")
    selection.on_failure(first, "it takes streams but has not answered one")
    assert selection.to_look_at() == (second,)
    first.streams = 0
    assert selection.to_look_at() == ()  # a caller that wants a stream tries all


def test_a_change_of_files_makes_all_due(time: Time) -> None:
    selection = _selection(time, "a:1")
    (entry,) = selection.entries
    for _ in range(40):
        selection.on_failure(entry, "wrong root")
        time.now += selection.wait_s()
    selection.on_failure(entry, "wrong root")
    assert selection.fails_for_long()
    selection.retry_now()
    assert selection.wait_s() == 0


def test_reasons_are_given_for_each_address_unless_they_are_one(time: Time) -> None:
    selection = _selection(time, "a:1", "b:1")
    for entry in selection.entries:
        selection.on_failure(entry, "token file t is empty")
    assert selection.why_none() == "token file t is empty"
    selection.on_failure(selection.entries[1], "connection refused")
    assert selection.why_none() == "a:1: token file t is empty; b:1: connection refused"


_EVENTS = st.lists(
    st.tuples(
        st.integers(0, 2),
        st.sampled_from(["failed", "answered", "ended", "looked", "looked badly", "files"]),
        st.floats(0, 400),
    ),
    max_size=60,
)


@given(_EVENTS)
def test_whatever_happens_there_is_a_place_to_try_and_a_bounded_wait(
    events: list[tuple[int, str, float]],
) -> None:
    time = Time()
    selection = _selection(time, "a:1", "b:1", "c:1")
    for number, event, seconds in events:
        entry: ControlPlaneEntry = selection.entries[number]
        match event:
            case "failed":
                selection.on_failure(entry, "failed")
            case "answered":
                selection.on_answer(entry)
            case "ended":
                selection.on_end(entry, lasted_s=seconds)
            case "looked":
                selection.on_look(entry, None)
            case "looked badly":
                selection.on_look(entry, "failed")
            case _:
                selection.retry_now()
        tried = selection.to_try()
        assert tried
        assert len(set(tried)) == len(tried)
        assert 0 <= selection.wait_s() <= AGAIN.maximum_s
        sound = [each for each in selection.entries if not each.fails]
        assert list(tried[: len(sound)]) == sound
        assert not {each.address for each in selection.to_look_at()} & {
            each.address for each in sound
        }
        time.now += seconds / 10


def test_one_that_refuses_who_we_are_is_asked_less_and_less_until_something_changes(
    time: Time,
) -> None:
    selection = _selection(time, "a:1")
    (entry,) = selection.entries
    waits: list[float] = []
    for _ in range(40):
        selection.on_failure(entry, "UNAUTHENTICATED: the token has expired", refused=True)
        waits.append(selection.wait_s())
        time.now += waits[-1]
    assert sum(waits[:4]) < 3, "soon with another proof"
    assert sum(waits) / len(waits) > 10
    assert max(waits) <= 30
    selection.on_failure(entry, "UNAUTHENTICATED: the token has expired", refused=True)
    selection.retry_now()
    assert selection.wait_s() == 0
    selection.on_failure(entry, "connection refused")
    assert selection.wait_s() <= AGAIN.maximum_s
