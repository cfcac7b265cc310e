"""Make before break, the first half: how long a push waits for its client between two types.

A client that has read new clusters and listeners asks for the endpoints and routes that they refer
to. Were the rest of the push sent before, traffic would be led to clusters without endpoints, or to
listeners without routes. None of these waits is for longer than the server allows.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

from xds_server.protocol._names import NO_NAMES
from xds_server.protocol._references import routes_of
from xds_server.protocol._type_urls import ENDPOINT, LISTENER, ROUTE
from xds_server.subscriptions._push_contents import PushContents
from xds_server.subscriptions._subscription import Subscription
from xds_server.subscriptions._warming import Warming


class PushWaits:
    """The waits of one stream's push for its client; each question says whether to wait on, now."""

    __slots__ = (
        "_hold_until_ack_s",
        "_new_routes",
        "_now",
        "_order_wait_s",
        "_since",
        "_subscriptions",
        "_warming",
    )

    def __init__(
        self,
        subscriptions: Mapping[str, Subscription],
        warming: Warming,
        *,
        order_wait_s: float,
        hold_until_ack_s: float | None,
        now: Callable[[], float],
    ) -> None:
        """hold_until_ack_s: None if a push does not wait for the answers to the one before."""
        self._subscriptions = subscriptions
        self._warming = warming
        self._order_wait_s = order_wait_s
        self._hold_until_ack_s = hold_until_ack_s
        self._now = now
        self._since: float | None = None
        self._new_routes: frozenset[str] = NO_NAMES

    @property
    def may_be_due(self) -> bool:
        """Whether `due_times` may have any."""
        return self._hold_until_ack_s is not None or self._since is not None

    def due_times(self) -> Iterator[float]:
        """Yield the times at which a push goes on without the client."""
        if self._since is not None:
            yield self._since + self._order_wait_s
        for type_url in self._subscriptions:
            if (until := self._unanswered_until(type_url)) is not None:
                yield until

    def begin(self, contents: PushContents) -> frozenset[str]:
        """A push begins. Return the routes that its new listeners refer to, not asked for yet."""
        self._new_routes = self._routes_of_new_listeners(contents)
        return self._new_routes

    def for_all_answers(self) -> bool:
        """Return whether the client still has time to answer the last response of any type."""
        return self._hold_until_ack_s is not None and any(map(self.for_answer, self._subscriptions))

    def for_answer(self, type_url: str) -> bool:
        """Return whether the client still has time to answer the last response of a type."""
        until = self._unanswered_until(type_url)
        return until is not None and self._now() < until

    def for_endpoints(self) -> bool:
        """Return whether new clusters still lack endpoints, so that routes to them would fail.

        A client asks for the endpoints of a new cluster when it has read it, and answers requests
        that are routed to it with an error meanwhile. A client that does not ask for endpoints is
        not waited for beyond `order_wait_s`.
        """
        endpoints = self._subscriptions.get(ENDPOINT)
        queries = endpoints is not None and (endpoints.names or endpoints.wildcard)
        lacks = bool(queries and self._warming.awaited)
        waits = self._wait_on(lacks=lacks)
        if lacks and not waits:
            self._warming.stop_awaiting(self._warming.awaited)
        return waits

    def for_routes(self) -> bool:
        """Return whether the client has yet to ask for routes of listeners that this push brought.

        It asks when it has read the listeners, and shall get the routes from the same state. Until
        then it goes on with the old listeners and their routes.
        """
        routes, listeners = self._subscriptions.get(ROUTE), self._subscriptions.get(LISTENER)
        refused = listeners is None or listeners.nack is not None
        if routes is None or refused or self._new_routes <= routes.names:
            self._new_routes = NO_NAMES
        return self._wait_on(lacks=bool(self._new_routes))

    def _wait_on(self, *, lacks: bool) -> bool:
        """Return whether to go on waiting, which is never for longer than `order_wait_s`."""
        if not lacks:
            self._since = None
            return False
        now = self._now()
        if self._since is None:
            self._since = now
        if now < self._since + self._order_wait_s:
            return True
        self._since = None
        return False

    def _unanswered_until(self, type_url: str) -> float | None:
        """Return until when the next push of a type waits for the answer to its last."""
        subscription = self._subscriptions.get(type_url)
        if self._hold_until_ack_s is None or subscription is None or subscription.is_answered:
            return None
        return (subscription.sent_at or 0.0) + self._hold_until_ack_s

    def _routes_of_new_listeners(self, contents: PushContents) -> frozenset[str]:
        """Return the routes that new listeners refer to and that the client has not asked for."""
        routes = self._subscriptions.get(ROUTE)
        listeners = self._subscriptions.get(LISTENER)
        if routes is None or routes.wildcard or listeners is None:
            return NO_NAMES
        client_has = listeners.client_has
        return frozenset(
            name
            for query, generated in contents.for_type(LISTENER)
            if generated is not None
            for listener in client_has.difference(generated.wanted_by(query.watch), complete=True)[
                0
            ].values()
            for name in routes_of(listener)
            if name not in routes.names
        )
