"""A connection makes one push at a time: the one it was given, or one of its own to catch up."""

from __future__ import annotations

from dataclasses import dataclass, field

from xds_server import PushRequest
from xds_server.pushing._push import Push
from xds_server.pushing._push_throttle import PushPermit
from xds_server.streams.pushes._current_push import CurrentPush


class Permit(PushPermit):
    def __init__(self) -> None:
        super().__init__(None)
        self.released = False

    def release(self) -> None:
        self.released = True


@dataclass
class Given:
    """A push, and what became of it."""

    reason: str = "test"
    permit: Permit = field(default_factory=Permit)
    times_done: int = 0

    def push(self) -> Push:
        request = PushRequest(triggers=(self.reason,), started=1.0)
        return Push(request=request, permit=self.permit, done=self._done)

    def _done(self) -> None:
        self.times_done += 1


def begun(push: CurrentPush) -> PushRequest:
    request = push.begin()
    push.responses = iter(())
    return request


def end(push: CurrentPush, *, reason: str = "test") -> None:
    push.end({}, reasons=(reason,), at=7.0)


def test_a_push_is_due_when_it_is_given_and_over_when_all_was_sent() -> None:
    push, given = CurrentPush(), Given()
    assert not push.is_due(has_deferred=False)

    push.give(given.push())
    assert push.is_due(has_deferred=False)

    assert begun(push).triggers == ("test",)
    assert push.has_begun_given
    assert (given.permit.released, given.times_done) == (False, 0)

    end(push)
    assert (given.permit.released, given.times_done) == (True, 1)
    assert not push.is_due(has_deferred=False)
    assert push.last is not None
    assert push.last.status().reasons == ("test",)


def test_deferred_queries_make_a_push_of_its_own_that_is_not_reported_as_the_last() -> None:
    push = CurrentPush()
    assert push.is_due(has_deferred=True)

    assert begun(push).triggers == ("request",)
    assert push.request is None
    assert push.counts is None
    assert not push.has_begun_given

    end(push)
    assert push.last is None
    assert not push.is_due(has_deferred=False)


def test_a_push_that_is_given_while_it_catches_up_begins_after() -> None:
    push, given = CurrentPush(), Given("later")
    begun(push)
    push.give(given.push())
    assert push.request is None
    assert not push.has_begun_given

    end(push)
    assert (given.permit.released, given.times_done) == (False, 0)
    assert push.is_due(has_deferred=False)
    assert begun(push).triggers == ("later",)
    assert push.counts is not None


def test_a_stuck_push_is_not_due_and_lets_others_begin() -> None:
    push, given = CurrentPush(), Given()
    push.give(given.push())
    begun(push)
    push.is_stuck = True
    push.let_others_begin()

    assert not push.is_due(has_deferred=True)
    assert (given.permit.released, given.times_done) == (True, 0)

    push.is_stuck = False
    assert push.is_due(has_deferred=False)


def test_a_push_of_a_stream_that_ends_is_over_once() -> None:
    push, given = CurrentPush(), Given()
    push.give(given.push())
    begun(push)
    push.give_up()
    push.give_up()

    assert (given.permit.released, given.times_done) == (True, 1)
    assert push.last is None
