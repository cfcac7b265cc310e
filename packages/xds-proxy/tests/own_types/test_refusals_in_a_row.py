"""A control plane that answers each NACK with the same response gets fewer and fewer of them."""

from itertools import pairwise

import pytest

from relays import Messages, RecordingInterceptor
from xds_proxy import InterceptorRefused
from xds_proxy.own_types._interception import Answer, Interception
from xds_proxy.own_types._refusals_in_a_row import RefusalsInARow
from xds_proxy.protocol._dialect import STATE_OF_THE_WORLD

HOUR_S = 3600.0


class Time:
    """A clock that the test moves."""

    def __init__(self) -> None:
        self.seconds = 0.0

    def now(self) -> float:
        return self.seconds

    def monotonic(self) -> float:
        return self.seconds

    async def sleep(self, seconds: float) -> None:
        self.seconds += seconds


def _answer(interception: Interception, *, version: str) -> Answer:
    response = Messages.response(
        Messages.name_table, version=version, nonce=version, bodies=(b"a table",)
    )
    peeked = STATE_OF_THE_WORLD.read_response(response)
    return interception.answer(STATE_OF_THE_WORLD, response, peeked)


def test_the_first_refusal_is_answered_at_once_and_those_after_it_ever_later() -> None:
    time = Time()
    refusals = RefusalsInARow(time.monotonic)
    waits = []
    for _ in range(20):
        waits.append(refusals.on_nack())
        time.seconds += waits[-1]
    assert waits[0] == 0.0
    assert 0.0 < waits[1] <= 0.12
    assert all(one < next_ for one, next_ in pairwise(waits[:7]))
    assert all(8.0 <= each <= 10.0 for each in waits[10:])


def test_an_accepted_response_and_a_quiet_minute_begin_anew() -> None:
    time = Time()
    refusals = RefusalsInARow(time.monotonic)
    refusals.on_nack()
    assert refusals.on_nack() > 0.0
    refusals.on_ack()
    assert refusals.on_nack() == 0.0
    assert refusals.on_nack() > 0.0
    time.seconds += 60.0
    assert refusals.on_nack() == 0.0


@pytest.mark.parametrize("error", [InterceptorRefused("no table"), RuntimeError("a fault")])
def test_an_hour_of_refusals_costs_some_hundred_answers_and_a_handful_of_lines(
    caplog: pytest.LogCaptureFixture, error: Exception
) -> None:
    time, interceptor = Time(), RecordingInterceptor()
    interceptor.error = error
    interception = Interception([interceptor], clock=time)
    versions = 0
    while time.seconds < HOUR_S:
        versions += 1
        time.seconds += _answer(interception, version=str(versions)).wait_s
    assert HOUR_S / 10.0 <= versions <= HOUR_S / 8.0 + 10
    assert interception.refusals == versions
    first, *others = caplog.records
    assert first.message == "the agent refused a configuration and keeps the last good one"
    assert (first.exc_info is not None) is isinstance(error, RuntimeError)
    assert {each.message for each in others} == {f"{first.message}, repeatedly"}
    assert len(others) == 5, "after 1, 3, 7, 15 and 31 minutes"
    assert versions - 200 < sum(vars(each)["times"] for each in others) < versions
    interceptor.error = None
    assert _answer(interception, version="good").wait_s == 0.0
