"""What happens again and again is told when it begins."""

from hypothesis import given
from hypothesis import strategies as st

from mesh_listening import LogLimiter


class Time:
    def __init__(self) -> None:
        self.now = 0.0


def test_an_episode_begins_with_the_first_and_again_after_a_quiet_time() -> None:
    time = Time()
    episodes = LogLimiter(quiet_s=5.0, now=lambda: time.now)
    assert episodes.begins("a")
    assert episodes.begins("b")
    for _ in range(10):
        time.now += 4.0
        assert not episodes.begins("a")
    assert episodes.begins("b")
    time.now += 5.0
    assert episodes.begins("a")


def test_more_subjects_than_are_told_apart_are_logged_together() -> None:
    episodes = LogLimiter(quiet_s=5.0, now=lambda: 0.0)
    assert sum(episodes.begins(f"{number}") for number in range(5000)) == 1001
    assert not episodes.begins("another")
    assert not episodes.begins("7")


@given(st.lists(st.tuples(st.sampled_from("ab"), st.floats(0, 10)), max_size=50))
def test_an_event_is_logged_exactly_after_a_quiet_time(
    happened: list[tuple[str, float]],
) -> None:
    time, last = Time(), dict[str, float]()
    episodes = LogLimiter(quiet_s=5.0, now=lambda: time.now)
    for subject, after_s in happened:
        time.now += after_s
        quiet = subject not in last or time.now - last[subject] >= 5.0
        assert episodes.begins(subject) is quiet
        last[subject] = time.now


def test_an_event_that_goes_on_is_due_now_and_then_with_how_often_it_happened() -> None:
    time = Time()
    limiter = LogLimiter(quiet_s=60.0, now=lambda: time.now)
    counts = []
    for _ in range(13):
        counts.append(limiter.due("a", every_s=60.0))
        time.now += 10.0
    assert counts == [1, 0, 0, 0, 0, 0, 6, 0, 0, 0, 0, 0, 6]
    assert limiter.due("b", every_s=60.0) == 1
    time.now += 60.0
    assert limiter.due("a", every_s=60.0) == 1


@given(st.lists(st.tuples(st.sampled_from("ab"), st.floats(0, 40)), max_size=50))
def test_no_event_is_left_uncounted_that_is_told_of_later(
    happened: list[tuple[str, float]],
) -> None:
    time, told, last = Time(), {"a": 0, "b": 0}, dict[str, float]()
    events = {"a": 0, "b": 0}
    limiter = LogLimiter(quiet_s=60.0, now=lambda: time.now)
    for subject, after_s in happened:
        time.now += after_s
        if subject in last and time.now - last[subject] >= 60.0:
            events[subject] = told[subject]  # those of an event that was over are not told
        last[subject] = time.now
        events[subject] += 1
        if count := limiter.due(subject, every_s=60.0):
            told[subject] += count
            assert told[subject] == events[subject]
