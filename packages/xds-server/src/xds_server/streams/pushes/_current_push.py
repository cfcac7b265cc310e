"""The push of one connection, from when it may begin until all of it was sent.

A connection is given one push at a time. Besides, it makes one of its own where queries were
deferred, to catch up; a push that it is given meanwhile begins when that has ended.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from xds_server.protocol._response import Response
from xds_server.pushing._push import Push
from xds_server.pushing._push_request import PushRequest
from xds_server.streams.pushes._last_push import LastPush, PushCounts
from xds_server.subscriptions._subscription import Subscription

_CATCH_UP = PushRequest(triggers=("request",), started=0.0)
"""The push that answers deferred queries: everything may have changed."""


class CurrentPush:
    """The push that a connection makes or is to make, if any; and the last one, for its status.

    `responses` are those that are still to be sent; None before it has begun. One that `is_stuck`
    goes on when the client has sent a request, or when it has waited long enough.
    """

    __slots__ = ("_catches_up", "_given", "counts", "is_stuck", "last", "responses")

    def __init__(self) -> None:
        self._given: Push | None = None
        self._catches_up = False
        self.responses: Iterator[Response | None] | None = None
        self.counts: PushCounts | None = None
        self.is_stuck = False
        self.last: LastPush | None = None

    def give(self, push: Push) -> None:
        """Let this push begin as soon as the connection comes to it."""
        self._given = push

    def is_due(self, *, has_deferred: bool) -> bool:
        """Return whether there is a push to begin or go on with, or one for deferred queries."""
        if self.responses is not None:
            return not self.is_stuck
        return self._given is not None or has_deferred

    @property
    def has_begun_given(self) -> bool:
        """Whether the push that was given has begun; one that catches up does not count."""
        return self.responses is not None and not self._catches_up

    @property
    def request(self) -> PushRequest | None:
        """The request of the push that was given; None while the connection catches up."""
        return None if self._catches_up or self._given is None else self._given.request

    def begin(self) -> PushRequest:
        """Begin; return the request to generate the responses for. The caller sets `responses`."""
        self._catches_up = self._given is None
        self.counts = None if self._catches_up else PushCounts()
        return _CATCH_UP if self._given is None else self._given.request

    def let_others_begin(self) -> None:
        """Give up the permit: a stuck push waits for a request, not for the network."""
        if self._given is not None:
            self._given.permit.release()

    def end(
        self, subscriptions: Mapping[str, Subscription], *, reasons: tuple[str, ...], at: float
    ) -> None:
        """All was sent, `at` (Unix seconds), for these reasons."""
        if self._catches_up:
            self.responses = None
            self._catches_up = False
            return
        if self.counts is not None:
            self.last = self.counts.finish(subscriptions, reasons=reasons, at=at)
        self.give_up()

    def give_up(self) -> None:
        """End the push that was given, whether or not all of it was sent."""
        given, self._given, self.responses, self.counts = self._given, None, None, None
        if given is not None:
            given.permit.release()
            given.done()
