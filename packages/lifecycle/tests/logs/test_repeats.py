"""What happens again and again is logged when it begins, now and then, and when it is over."""

import logging
import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mesh_lifecycle import RepeatLog
from mesh_lifecycle.logs._repeats import FIRST_LINES, MOST_KEYS, Phase, Repeats
from mesh_testkit import until

log = logging.getLogger("mesh_lifecycle.repeating")


class Refusals:
    """A message that tells of refusals, on a clock of its own, and its lines."""

    def __init__(self, caplog: pytest.LogCaptureFixture) -> None:
        caplog.set_level(logging.INFO)
        self.now = 0.0
        self.log = RepeatLog(log, "caller refused", quiet_s=180.0, now=lambda: self.now)
        self._caplog = caplog

    def refused(self, caller: str, reason: str = "expired") -> None:
        self.log.happened(caller, reason=reason, facts={"caller": caller})

    def lines(self) -> list[tuple[str, dict[str, object]]]:
        """Those since the last call: the message and its facts."""
        names = ("caller", "reason", "times", "subjects", "most", "for_s", "lasted_s")
        found = [
            (each.getMessage(), {name: vars(each)[name] for name in names if name in vars(each)})
            for each in self._caplog.records
        ]
        self._caplog.clear()
        return found


@pytest.fixture
def refusals(caplog: pytest.LogCaptureFixture) -> Refusals:
    return Refusals(caplog)


def test_the_first_time_is_logged_and_repeats_at_growing_intervals(refusals: Refusals) -> None:
    logged_at: list[float] = []
    while refusals.now < 4 * 3600:
        refusals.refused("a")
        if refusals.lines():
            logged_at.append(refusals.now)
        refusals.now += 1.0
    assert logged_at == [0, 60, 180, 420, 900, 1860, 3780, 7380, 10980]


def test_a_repeat_tells_how_often_and_the_end_how_often_in_all(refusals: Refusals) -> None:
    for _ in range(61):
        refusals.refused("a")
        refusals.now += 1.0
    facts = {"caller": "a", "reason": "expired"}
    assert refusals.lines() == [
        ("caller refused", facts),
        ("caller refused, repeatedly", {**facts, "times": 59, "for_s": 60.0}),
    ]
    refusals.log.ended("a")
    assert refusals.lines() == [
        ("caller refused, no longer", {**facts, "times": 61, "lasted_s": 60.0})
    ]
    refusals.refused("a")
    assert refusals.lines() == [("caller refused", facts)], "the next is a first one again"


def test_another_subject_and_another_reason_are_logged_at_once(refusals: Refusals) -> None:
    for caller, reason in (("a", "expired"), ("b", "expired"), ("a", "revoked")) * 5:
        refusals.refused(caller, reason)
    assert [facts["reason"] for _, facts in refusals.lines()] == ["expired", "expired", "revoked"]


def test_a_thousand_subjects_have_few_lines_and_are_counted(refusals: Refusals) -> None:
    for _ in range(61):
        for number in range(1000):
            refusals.refused(f"caller-{number}")
        refusals.now += 1.0
    lines = refusals.lines()
    assert len(lines) == FIRST_LINES + 1
    message, facts = lines[FIRST_LINES]
    assert message == "caller refused, repeatedly"
    assert (facts["times"], facts["subjects"]) == (60 * 1000 - FIRST_LINES, 1000)
    assert facts["most"] == "caller-10 (60), caller-11 (60), caller-12 (60)"


def test_reasons_that_are_never_the_same_have_few_lines(refusals: Refusals) -> None:
    for number in range(600):
        refusals.refused("a", f"expired {chr(0x4E00 + number)}")
        refusals.now += 1.0
    messages = [message for message, _ in refusals.lines()]
    assert messages.count("caller refused") <= FIRST_LINES + 10
    assert len(messages) < 40


def test_reasons_that_differ_in_numbers_only_are_one(refusals: Refusals) -> None:
    for number in range(50):
        refusals.refused("a", f"127.0.0.1:{40000 + number}: expired {number} s ago")
    assert len(refusals.lines()) == 1


def test_subjects_that_are_over_one_by_one_have_few_lines(refusals: Refusals) -> None:
    for number in range(1000):
        refusals.refused(f"caller-{number}")
        refusals.now += 0.01
    refusals.lines()
    for number in range(1000):
        refusals.log.ended(f"caller-{number}")
    messages = [message for message, _ in refusals.lines()]
    assert messages.count("caller refused, no longer") == FIRST_LINES
    assert messages.count("caller refused, repeatedly") == 1


@given(
    st.lists(
        st.tuples(
            st.integers(0, 3 * MOST_KEYS), st.sampled_from("ab"), st.floats(0, 500), st.booleans()
        ),
        max_size=60,
    )
)
def test_every_event_is_counted_once_whatever_happens(
    events: list[tuple[int, str, float, bool]],
) -> None:
    repeats, now, logged = Repeats(quiet_s=180.0), 0.0, []
    for subject, reason, wait_s, ends in events:
        now += wait_s
        if ends:
            logged += repeats.ended(str(subject), now=now)
        else:
            logged += repeats.happened(str(subject), reason, {}, now=now)
        assert repeats.next_at() > now
    while (due := repeats.next_at()) != math.inf:
        now = due
        logged += repeats.settled(now=now)
    begun = [line for line in logged if line.phase is Phase.BEGINS]
    over = [line for line in logged if line.phase is Phase.ENDS]
    assert len(begun) == len(over)


async def test_the_end_is_logged_by_a_timer(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    repeats = RepeatLog(log, "caller refused", quiet_s=0.5)
    repeats.happened("a")
    await until(
        lambda: "caller refused, no longer" in [each.getMessage() for each in caplog.records],
        what="the end of it in the log",
    )


def test_without_an_event_loop_the_end_is_logged_with_the_next_event(refusals: Refusals) -> None:
    refusals.refused("a")
    refusals.now += 200
    refusals.refused("b")
    assert [message for message, _ in refusals.lines()] == [
        "caller refused",
        "caller refused, no longer",
        "caller refused",
    ]
