"""How a question is put to servers: every order of events ends in time with the best there was."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mesh_dnsproxy import Upstream
from mesh_dnsproxy.forwarding._resolution import Attempt, Resolution, Transport
from mesh_dnsproxy.message._reply import Verdict

ONE, TWO, THREE = (Upstream(f"10.0.0.{n}") for n in (1, 2, 3))


def resolution(
    *servers: Upstream,
    transport: Transport = Transport.UDP,
    rounds: int = 2,
    parallel: bool = False,
) -> Resolution:
    return Resolution(
        servers, transport, timeout_s=1.0, total_timeout_s=4.5, rounds=rounds, parallel=parallel
    )


def asked(attempts: tuple[Attempt, ...]) -> list[tuple[Upstream, str]]:
    return [(each.server, each.transport.value) for each in attempts]


def test_the_next_server_is_asked_when_one_is_silent_and_a_late_answer_counts() -> None:
    question = resolution(ONE, TWO)
    (first,) = question.start(0.0)
    assert first.server == ONE
    assert question.due_at == 1.0
    assert question.time_passed(0.9) == ()
    (second,) = question.time_passed(1.0)
    assert second.server == TWO
    assert question.silent == (ONE, TWO)
    assert question.replied(first, Verdict.GOOD, b"late", 1.5) == ()
    assert question.outcome == (b"late", True, ONE)


def test_a_refusal_and_a_dead_server_are_followed_by_the_next_at_once() -> None:
    question = resolution(ONE, TWO, THREE)
    (first,) = question.start(0.0)
    (second,) = question.replied(first, Verdict.FAILED, b"refused", 0.0)
    assert second.server == TWO
    (third,) = question.failed(second, 0.0)
    assert third.server == THREE
    question.replied(third, Verdict.GOOD, b"good", 0.1)
    assert question.outcome == (b"good", True, THREE)


def test_when_all_servers_failed_the_first_error_is_the_outcome_and_none_is_asked_again() -> None:
    question = resolution(ONE, TWO)
    (first,) = question.start(0.0)
    (second,) = question.replied(first, Verdict.FAILED, b"refused", 0.0)
    assert question.replied(second, Verdict.FAILED, b"failed", 0.0) == ()
    assert question.outcome == (b"refused", False, ONE)


def test_a_single_silent_server_is_asked_again_and_waited_for_to_the_end() -> None:
    question = resolution(ONE)
    question.start(0.0)
    assert asked(question.time_passed(1.0)) == [(ONE, "udp")]
    assert question.time_passed(2.0) == ()
    assert question.due_at == 4.5
    assert question.time_passed(4.5) == ()
    assert question.outcome == (None, False, None)


def test_a_cut_reply_is_fetched_over_tcp_and_is_the_outcome_if_that_fails() -> None:
    question = resolution(ONE, rounds=1)
    (first,) = question.start(0.0)
    (again,) = question.replied(first, Verdict.TRUNCATED, b"cut", 0.0)
    assert asked((again,)) == [(ONE, "tcp")]
    question.failed(again, 0.1)
    assert question.outcome == (b"cut", False, ONE)


def test_over_tcp_first_and_over_udp_when_no_server_does() -> None:
    question = resolution(ONE, TWO, transport=Transport.TCP, rounds=1)
    order = []
    attempts = question.start(0.0)
    while attempts:
        order += asked(attempts)
        attempts = question.failed(attempts[0], 0.0)
    assert order == [(ONE, "tcp"), (TWO, "tcp"), (ONE, "udp"), (TWO, "udp")]


def test_in_parallel_the_first_good_answer_counts() -> None:
    question = resolution(ONE, TWO, THREE, parallel=True)
    attempts = question.start(0.0)
    assert asked(attempts) == [(ONE, "udp"), (TWO, "udp"), (THREE, "udp")]
    assert question.failed(attempts[0], 0.0) == ()
    assert question.replied(attempts[2], Verdict.FAILED, b"no", 0.0) == ()
    question.replied(attempts[1], Verdict.GOOD, b"good", 0.5)
    assert question.outcome == (b"good", True, TWO)


def test_without_a_server_there_is_an_outcome_at_once() -> None:
    question = resolution()
    assert question.start(0.0) == ()
    assert question.outcome == (None, False, None)


EVENTS = st.lists(
    st.tuples(st.sampled_from(("good", "cut", "no", "dead", "time")), st.integers(0, 5)),
    max_size=30,
)


@pytest.mark.parametrize("parallel", [False, True])
@pytest.mark.parametrize("transport", Transport)
@given(events=EVENTS, count=st.integers(0, 4))
def test_whatever_happens_there_is_an_outcome_in_time_and_the_best_one(
    events: list[tuple[str, int]], count: int, transport: Transport, *, parallel: bool
) -> None:
    servers = tuple(Upstream(f"10.0.0.{n}") for n in range(count))
    question = resolution(*servers, transport=transport, parallel=parallel)
    now = 0.0
    actions = list(question.start(now))
    best = 0
    for event, number in events:
        if question.outcome is not None:
            break
        if event == "time":
            now = question.due_at
            actions += question.time_passed(now)
            continue
        attempt = actions[number % len(actions)]
        still_open = attempt in question._open.values()
        worth = {"good": 3, "cut": 2, "no": 1, "dead": 0}[event]
        if event == "dead":
            actions += question.failed(attempt, now)
        else:
            verdict = (Verdict.FAILED, Verdict.TRUNCATED, Verdict.GOOD)[worth - 1]
            actions += question.replied(attempt, verdict, bytes((worth,)), now)
        best = max(best, worth) if still_open else best
    for _ in range(20):
        if question.outcome is None:
            assert question.due_at <= 4.5
            now = question.due_at
            actions += question.time_passed(now)
    assert question.outcome is not None
    assert now <= 4.5
    reply = question.outcome.reply
    assert (reply[0] if reply else 0) == best
    assert question.outcome.answered == (best == 3)
    assert len(actions) <= 2 * 2 * max(1, count) * 2
