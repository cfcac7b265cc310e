"""One stream of either dialect, without its I/O: requests and changes in, responses out.

What both dialects share: the order of a push, the endpoints that follow changed clusters, and
removals that wait until nothing refers to them any more.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Generic, TypeAlias, TypeVar

from ._generator import Generated, Watch
from ._request import NO_NAMES
from ._resource import Resource
from ._subscription import Ask, Received, Response, Subscription
from ._type_urls import CLUSTER, ENDPOINT, in_push_order
from ._warming import Warming

R = TypeVar("R")
"""The request of a dialect."""

Source: TypeAlias = Callable[[Ask], Generated | None]
"""Makes what an ask is for; None: there is nothing to say."""

_COME_FIRST = frozenset({CLUSTER, ENDPOINT})
"""What the types after them refer to."""

_WAIT_FOR_REFERRERS = frozenset({CLUSTER, ENDPOINT})
"""Removed only when the routes and listeners that referred to them are known to be replaced.

https://www.envoyproxy.io/docs/envoy/latest/api-docs/xds_protocol#eventual-consistency-considerations
"""


class StreamState(ABC, Generic[R]):
    """The subscriptions of one stream.

    `receive` takes in a request and says what has to be generated for it; `answers` and `push`
    then make the responses, each only when the one before is taken, so that a client that reads
    slowly gets what is newest when it has read. `answers` to nothing is what waited and is due.
    """

    __slots__ = (
        "_hold_until_ack_s",
        "_holding_since",
        "_identifier",
        "_now",
        "_order_wait_s",
        "_responses",
        "_version",
        "_warming",
        "nonce_prefix",
        "subscriptions",
    )

    def __init__(
        self,
        *,
        nonce_prefix: str,
        identifier: str,
        order_wait_s: float,
        hold_until_ack_s: float | None,
        now: Callable[[], float],
        version: Callable[[], str],
    ) -> None:
        self.subscriptions: dict[str, Subscription] = {}
        self.nonce_prefix = nonce_prefix
        self._responses = 0
        self._identifier = identifier
        self._order_wait_s = order_wait_s
        self._hold_until_ack_s = hold_until_ack_s
        self._now = now
        self._version = version
        self._warming = Warming()
        self._holding_since: float | None = None

    @abstractmethod
    def receive(self, request: R) -> Received:
        """Take in a request. A request is answered by the asks it comes to, or by nothing."""

    def answers(self, asks: Iterable[Ask], source: Source) -> Iterator[Response]:
        """What a request is answered with, and what waited for it."""
        for ask in asks:
            yield from self._made(ask, source)
        yield from self._owed(source)
        yield from self._removals()
        yield from self._owed(source)
        yield from self._heartbeats()

    def push(self, source: Source) -> Iterator[Response | None]:
        """What brings the client up to date, in the order that breaks nothing.

        None is not a response: the push then goes on when the client has said something more,
        or at `wakes_at`.
        """
        for type_url in in_push_order(self.subscriptions):
            if type_url not in _COME_FIRST:
                yield from self._owed(source)
                while self._must_hold():
                    yield None
            while (until := self._unacked_until(type_url)) is not None and self._now() < until:
                yield None
            subscription = self.subscriptions.get(type_url)
            if subscription is not None and (subscription.wildcard or subscription.names):
                yield from self._made(Ask(type_url=type_url, watch=subscription.watch), source)
        yield from self.answers((), source)

    def _unacked_until(self, type_url: str) -> float | None:
        """How long the next push of a type waits for the client to accept its last."""
        subscription = self.subscriptions.get(type_url)
        if self._hold_until_ack_s is None or subscription is None or subscription.settled:
            return None
        return (subscription.sent_at or 0.0) + self._hold_until_ack_s

    def _must_hold(self) -> bool:
        """Whether new clusters still lack endpoints, so that routes to them would fail.

        A client asks for the endpoints of a new cluster when it has read it, and takes a route
        to it meanwhile for a route to nowhere. One that does not ask is not waited for for long.
        """
        endpoints = self.subscriptions.get(ENDPOINT)
        asks = endpoints is not None and (endpoints.names or endpoints.wildcard)
        if not asks or not self._warming.awaited:
            self._holding_since = None
            return False
        now = self._now()
        if self._holding_since is None:
            self._holding_since = now
        if now < self._holding_since + self._order_wait_s:
            return True
        self._holding_since = None
        self._warming.give_up()
        return False

    def _made(self, ask: Ask, source: Source) -> Iterator[Response]:
        generated = source(ask)
        if generated is not None:
            response = self._respond(ask, generated)
            if response is not None:
                yield response

    @abstractmethod
    def _respond(self, ask: Ask, generated: Generated) -> Response | None:
        """The response that brings the client up to date with `generated`; None: it is."""

    @abstractmethod
    def _farewell(self, subscription: Subscription) -> Response:
        """The response that takes away what is leaving."""

    def _owed(self, source: Source) -> Iterator[Response]:
        """Endpoints the client waits for but has not asked for."""
        subscription = self.subscriptions.get(ENDPOINT)
        if subscription is None or not self._warming.awaited:
            return
        names = self._warming.take(subscription.watch.covers)
        if not names:
            return
        watch = Watch(type_url=ENDPOINT, names=names)
        ask = Ask(type_url=ENDPOINT, watch=watch, asked=True, force=True)
        yield from self._made(ask, source)

    @abstractmethod
    def _heartbeat(self, subscription: Subscription, resources: Mapping[str, Resource]) -> Response:
        """The response that keeps resources from expiring."""

    def _heartbeats(self) -> Iterator[Response]:
        """What keeps resources with a TTL alive, when half of it has passed."""
        for subscription in tuple(self.subscriptions.values()):
            due_at = subscription.heartbeat_at
            if due_at is not None and self._now() >= due_at:
                subscription.shortest_ttl_s = None
                expiring = {n: r for n, r in subscription.held.items() if r.ttl_s is not None}
                self._note_ttls(subscription, expiring)
                if expiring:
                    yield self._heartbeat(subscription, expiring)

    def _note_ttls(self, subscription: Subscription, sent: Mapping[str, Resource]) -> None:
        ttl_s = min((r.ttl_s for r in sent.values() if r.ttl_s is not None), default=None)
        if ttl_s is None:
            return
        if subscription.shortest_ttl_s is None:
            subscription.shortest_ttl_s, subscription.refreshed_at = ttl_s, self._now()
        else:
            subscription.shortest_ttl_s = min(ttl_s, subscription.shortest_ttl_s)

    def _removals(self) -> Iterator[Response]:
        """The removals whose time has come, in the reverse of the push order."""
        due = [
            subscription
            for type_url in reversed(in_push_order(self.subscriptions))
            if (subscription := self.subscriptions[type_url]).leaving
            and self._may_leave(subscription)
        ]
        for subscription in due:
            yield self._farewell(subscription)

    def wakes_at(self) -> float | None:
        """When what waits for the client goes on without it."""
        times = [
            s.leaving_since + self._order_wait_s for s in self.subscriptions.values() if s.leaving
        ]
        if self._holding_since is not None:
            times.append(self._holding_since + self._order_wait_s)
        times += [at for s in self.subscriptions.values() if (at := s.heartbeat_at) is not None]
        times += [t for t in map(self._unacked_until, self.subscriptions) if t is not None]
        return min(times, default=None)

    def _may_leave(self, subscription: Subscription) -> bool:
        return (
            subscription.type_url not in _WAIT_FOR_REFERRERS
            or self._now() >= subscription.leaving_since + self._order_wait_s
            or all(other.settled for other in self.subscriptions.values())
        )

    def _never_used(self, subscription: Subscription, names: frozenset[str]) -> frozenset[str]:
        """The clusters among `names` that never got endpoints, so that no route can use them.

        They need not wait for the routes, and must not: the client goes on warming them.
        """
        if subscription.type_url != CLUSTER or not self._warming:
            return NO_NAMES
        held = subscription.held
        unused = {n for n in names & held.keys() if self._warming.is_waiting(held[n])}
        self._warming.clusters_gone(held[name] for name in unused)
        return frozenset(unused)

    def _leave(self, subscription: Subscription, names: frozenset[str]) -> None:
        if names and not subscription.leaving:
            subscription.leaving_since = self._now()
        subscription.leaving = names or NO_NAMES

    def _drop_leaving(self, subscription: Subscription) -> frozenset[str]:
        """Forget what is leaving, and the endpoints it waited for."""
        names = subscription.leaving
        if subscription.type_url == CLUSTER and self._warming:
            held = subscription.held
            self._warming.clusters_gone(held[name] for name in names & held.keys())
        subscription.forget(names)
        subscription.leaving = NO_NAMES
        return names

    def _again(self, ask: Ask, state: Mapping[str, Resource]) -> set[str]:
        """The names among `state` that go out even if the client has them."""
        again = set(self._warming.awaited & state.keys()) if ask.type_url == ENDPOINT else set()
        if ask.force:
            again |= set(filter(ask.watch.covers, state))
        return again

    def _next_nonce(self) -> str:
        """A nonce no other stream uses, as clients may bring an old stream's to a new one.

        https://github.com/envoyproxy/envoy/issues/30155
        """
        self._responses += 1
        return f"{self.nonce_prefix}-{self._responses}"

    def _note_sent(self, type_url: str, resources: Mapping[str, Resource]) -> None:
        """Keep book of what is awaited and of what expires, as these resources go out."""
        self._note_ttls(self.subscriptions[type_url], resources)
        if type_url == CLUSTER:
            self._warming.clusters_sent(resources.values())
        elif type_url == ENDPOINT:
            self._warming.endpoints_sent(resources)
