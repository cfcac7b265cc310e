"""One stream of either dialect, without its I/O: requests and changes in, responses out.

What both dialects share: the order of a push, the endpoints that follow changed clusters, and
removals that wait until nothing refers to them any more and who referred to them has drained.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace
from typing import Generic, TypeVar

from xds_server.protocol._references import routes_of
from xds_server.protocol._resource import Resource
from xds_server.protocol._resources_by_name import NO_NAMES
from xds_server.protocol._response import Response
from xds_server.protocol._type_urls import (
    CLUSTER,
    ENDPOINT,
    FULL_STATE,
    LISTENER,
    ROUTE,
    SCOPED_ROUTE,
    VIRTUAL_HOST,
    in_push_order,
)
from xds_server.protocol._watch import Watch
from xds_server.sources._generated import Generated
from xds_server.subscriptions._push_contents import Generate, PushContents
from xds_server.subscriptions._subscription import (
    NO_REMOVAL_TIMES,
    Query,
    RemovalTime,
    RequestOutcome,
    Subscription,
)
from xds_server.subscriptions._warming import Warming

R = TypeVar("R")
"""The request of a dialect."""

_COME_FIRST = frozenset({CLUSTER, ENDPOINT})
"""What the types after them refer to."""

_REFER = frozenset({LISTENER, SCOPED_ROUTE, ROUTE, VIRTUAL_HOST})
"""What refers to clusters, so that it must not be newer than the clusters a client has."""

_WAIT_FOR_REFERRERS = frozenset({CLUSTER, ENDPOINT, ROUTE})
"""Removed only when the routes and listeners that referred to them are known to be replaced, and
the connections of those listeners have drained.

https://www.envoyproxy.io/docs/envoy/latest/api-docs/xds_protocol#eventual-consistency-considerations
"""


class StreamState(ABC, Generic[R]):
    """The subscriptions of one stream.

    `receive` takes in a request and says what has to be generated for it; `answers` and `push`
    then make the responses, each only when the one before is taken, so that a client that reads
    slowly gets what is newest when it has read. `answers` to nothing is what waited and is due.
    `identifier` is what the next responses name as their control plane.
    """

    __slots__ = (
        "_contents",
        "_deferred",
        "_drain_time_s",
        "_hold_until_ack_s",
        "_new_routes",
        "_now",
        "_order_wait_s",
        "_responses",
        "_resumed_at",
        "_version",
        "_waiting_since",
        "identifier",
        "nonce_prefix",
        "subscriptions",
        "warming",
    )

    def __init__(
        self,
        *,
        nonce_prefix: str,
        order_wait_s: float,
        hold_until_ack_s: float | None,
        drain_time_s: float,
        now: Callable[[], float],
        version: Callable[[], str],
    ) -> None:
        self.subscriptions: dict[str, Subscription] = {}
        self.nonce_prefix = nonce_prefix
        self._responses = 0
        self.identifier = ""
        self._order_wait_s = order_wait_s
        self._hold_until_ack_s = hold_until_ack_s
        self._drain_time_s = drain_time_s
        self._now = now
        self._version = version
        self.warming = Warming()
        self._waiting_since: float | None = None
        self._contents: PushContents | None = None
        self._deferred: tuple[Query, ...] = ()
        self._new_routes: frozenset[str] = NO_NAMES
        self._resumed_at: float | None = None

    @abstractmethod
    def receive(self, request: R) -> RequestOutcome:
        """Take in a request. A request is answered by the asks it comes to, or by nothing."""

    def answers(self, queries: Iterable[Query], source: Generate) -> Iterator[Response]:
        """What a request is answered with, and what waited for it."""
        for query in queries:
            yield from self._made(query, source)
        if not self.has_pending():
            return
        yield from self._awaited_endpoints(source)
        yield from self._removals()
        yield from self._awaited_endpoints(source)
        yield from self._heartbeats()

    def has_pending(self) -> bool:
        """Whether `answers` to nothing, now or later, may be something."""
        if self.warming.awaited:
            return True
        for subscription in self.subscriptions.values():  # asked many times a push: no generator
            if subscription.pending_removals or subscription.shortest_ttl_s is not None:
                return True
        return False

    def can_answer(self, query: Query) -> bool:
        """Whether the answer cannot be newer than the clusters the client has or is being sent."""
        if query.type_url not in _REFER:
            return True
        return self._contents is not None and self._contents.answer(query) is not None

    def defer(self, queries: tuple[Query, ...]) -> None:
        """Answer these in their turn in the next push."""
        self._deferred += queries

    @property
    def has_deferred(self) -> bool:
        return bool(self._deferred)

    def push(self, source: Generate) -> Iterator[Response | None]:
        """What brings the client up to date, in the order that breaks nothing.

        All of it is generated when it begins. None is not a response: the push then goes on when
        the client has said something more, or at `next_due_at`.
        """
        while any(self._must_wait_for_ack(type_url) for type_url in self.subscriptions):
            yield None
        contents = self._contents = self._generate_push(source)
        for type_url in in_push_order(self.subscriptions):
            if type_url not in _COME_FIRST:
                yield from self._awaited_endpoints(source)
                while self._must_wait_for_endpoints():
                    yield None
            while self._must_wait_for_ack(type_url):
                yield None
            for query, generated in contents.of(type_url):
                if self._is_outdated(query):
                    continue
                response = self._response_to(self._still_wanted(query), generated)
                if type_url == CLUSTER and ENDPOINT in self.subscriptions:
                    contents.refer(ENDPOINT, self.warming.awaited, source)
                if response is not None:
                    yield response
        while self._must_wait_for_routes():
            yield None
        self._contents = None
        yield from self.answers((), source)

    def _generate_push(self, source: Generate) -> PushContents:
        """Everything the client watches, as it is now; what it has just asked for comes first."""
        deferred, self._deferred = self._deferred, ()
        watched = [
            Query(type_url=type_url, watch=subscription.watch)
            for type_url, subscription in self.subscriptions.items()
            if subscription.wildcard or subscription.names
        ]
        contents = PushContents([*deferred, *watched], source)
        self._new_routes = self._routes_of_new_listeners(contents)
        if self._new_routes:
            contents.refer(ROUTE, self._new_routes, source)
        return contents

    def _is_outdated(self, query: Query) -> bool:
        """Whether the client has asked for more since, of a type whose responses are complete.

        The answer to that had it all; what was generated before would take the rest away again.
        """
        subscription = self.subscriptions.get(query.type_url)
        if subscription is None or query.type_url not in FULL_STATE or query.watch.wildcard:
            return False
        return subscription.wildcard or not subscription.names <= query.watch.names

    def _still_wanted(self, query: Query) -> Query:
        """An ask from when the push began, without what the client has given up since."""
        subscription = self.subscriptions.get(query.type_url)
        if subscription is None or subscription.wildcard or subscription.watch is query.watch:
            return query
        wanted = (
            subscription.names if query.watch.wildcard else subscription.names & query.watch.names
        )
        return replace(query, watch=Watch(type_url=query.type_url, names=wanted))

    def _routes_of_new_listeners(self, contents: PushContents) -> frozenset[str]:
        """The routes that listeners of this push refer to and the client has not asked for."""
        routes = self.subscriptions.get(ROUTE)
        listeners = self.subscriptions.get(LISTENER)
        if routes is None or routes.wildcard or listeners is None:
            return NO_NAMES
        client_has = listeners.client_has
        return frozenset(
            name
            for query, generated in contents.of(LISTENER)
            if generated is not None
            for listener in client_has.difference(generated.wanted_by(query.watch), complete=True)[
                0
            ].values()
            for name in routes_of(listener)
            if name not in routes.names
        )

    def _must_wait_for_routes(self) -> bool:
        """Whether the client still has to ask for routes of listeners that this push brought.

        It asks when it has read the listeners, and shall get them from the same state; until
        then it goes on with the old listeners and what they refer to.
        """
        routes, listeners = self.subscriptions.get(ROUTE), self.subscriptions.get(LISTENER)
        refused = listeners is None or listeners.nack is not None
        if routes is None or refused or self._new_routes <= routes.names:
            self._new_routes = NO_NAMES
        return self._must_go_on_waiting(bool(self._new_routes))

    def _must_go_on_waiting(self, waits: bool) -> bool:  # noqa: FBT001
        """Whether to wait on, which is never for longer than `order_wait_s`."""
        if not waits:
            self._waiting_since = None
            return False
        now = self._now()
        if self._waiting_since is None:
            self._waiting_since = now
        if now < self._waiting_since + self._order_wait_s:
            return True
        self._waiting_since = None
        return False

    def _must_wait_for_ack(self, type_url: str) -> bool:
        until = self._unacked_until(type_url)
        return until is not None and self._now() < until

    def _unacked_until(self, type_url: str) -> float | None:
        """How long the next push of a type waits for the client to accept its last."""
        subscription = self.subscriptions.get(type_url)
        if self._hold_until_ack_s is None or subscription is None or subscription.is_answered:
            return None
        return (subscription.sent_at or 0.0) + self._hold_until_ack_s

    def _must_wait_for_endpoints(self) -> bool:
        """Whether new clusters still lack endpoints, so that routes to them would fail.

        A client asks for the endpoints of a new cluster when it has read it, and takes a route
        to it meanwhile for a route to nowhere. One that does not ask is not waited for for long.
        """
        endpoints = self.subscriptions.get(ENDPOINT)
        queries = endpoints is not None and (endpoints.names or endpoints.wildcard)
        waits = bool(queries and self.warming.awaited)
        holds = self._must_go_on_waiting(waits)
        if waits and not holds:
            self.warming.stop_awaiting_all()
        return holds

    def _made(self, query: Query, source: Generate) -> Iterator[Response]:
        generated = self._contents.answer(query) if self._contents is not None else None
        response = self._response_to(query, generated if generated is not None else source(query))
        if response is not None:
            yield response

    def _response_to(self, query: Query, generated: Generated | None) -> Response | None:
        return None if generated is None else self._respond(query, generated)

    @abstractmethod
    def _respond(self, query: Query, generated: Generated) -> Response | None:
        """The response that brings the client up to date with `generated`; None: it is."""

    @abstractmethod
    def _removal_response(self, subscription: Subscription, names: frozenset[str]) -> Response:
        """The response that takes away these of what is leaving."""

    def _awaited_endpoints(self, source: Generate) -> Iterator[Response]:
        """Endpoints the client waits for but has not asked for."""
        subscription = self.subscriptions.get(ENDPOINT)
        if subscription is None or not self.warming.awaited:
            return
        names = self.warming.take(subscription.watch.covers)
        if not names:
            return
        watch = Watch(type_url=ENDPOINT, names=names)
        query = Query(type_url=ENDPOINT, watch=watch, requested=True, force=True)
        yield from self._made(query, source)

    @abstractmethod
    def _heartbeat(self, subscription: Subscription, resources: Mapping[str, Resource]) -> Response:
        """The response that keeps resources from expiring."""

    def _heartbeats(self) -> Iterator[Response]:
        """What keeps resources with a TTL alive, when half of it has passed."""
        for subscription in tuple(self.subscriptions.values()):
            due_at = subscription.heartbeat_at
            if due_at is not None and self._now() >= due_at:
                subscription.shortest_ttl_s = None
                expiring = {n: r for n, r in subscription.client_has.items() if r.ttl_s is not None}
                self._record_ttls(subscription, expiring)
                if expiring:
                    yield self._heartbeat(subscription, expiring)

    def _record_ttls(self, subscription: Subscription, sent: Mapping[str, Resource]) -> None:
        ttl_s = min((r.ttl_s for r in sent.values() if r.ttl_s is not None), default=None)
        if ttl_s is None:
            return
        if subscription.shortest_ttl_s is None:
            subscription.shortest_ttl_s, subscription.refreshed_at = ttl_s, self._now()
        else:
            subscription.shortest_ttl_s = min(ttl_s, subscription.shortest_ttl_s)

    def _removals(self) -> Iterator[Response]:
        """The removals whose time has come, in the reverse of the push order.

        Never in the middle of a push: what the client has accepted by then need not be all that
        replaces what is removed.
        """
        if self._contents is not None:
            return
        due = [
            (subscription, names)
            for type_url in reversed(in_push_order(self.subscriptions))
            if (subscription := self.subscriptions[type_url]).pending_removals
            and (names := self._due_removals(subscription))
        ]
        for subscription, names in due:
            yield self._removal_response(subscription, names)

    def next_due_at(self) -> float | None:
        """When what waits for the client goes on without it."""
        if (
            self._hold_until_ack_s is None
            and self._waiting_since is None
            and not self.has_pending()
        ):
            return None
        times: list[float] = []
        if self._contents is None:
            times += [
                since + self._order_wait_s if due_at is None else due_at
                for subscription in self.subscriptions.values()
                for since, due_at in map(
                    subscription.removal_times.__getitem__, subscription.pending_removals
                )
            ]
        if self._waiting_since is not None:
            times.append(self._waiting_since + self._order_wait_s)
        times += [at for s in self.subscriptions.values() if (at := s.heartbeat_at) is not None]
        times += [t for t in map(self._unacked_until, self.subscriptions) if t is not None]
        return min(times, default=None)

    def _due_removals(self, subscription: Subscription) -> frozenset[str]:
        """What of a type is removed now.

        First what replaces it has to be accepted; then, if listeners changed, the old ones drain.
        """
        if subscription.type_url not in _WAIT_FOR_REFERRERS:
            return subscription.pending_removals
        now = self._now()
        is_answered = all(other.is_answered for other in self.subscriptions.values())
        due_at = now + self._drain_time_s if self._listeners_drain() else now
        removal_times = {
            name: RemovalTime(since=since, due_at=due_at)
            if known is None and (is_answered or now >= since + self._order_wait_s)
            else RemovalTime(since=since, due_at=known)
            for name, (since, known) in subscription.removal_times.items()
            if name in subscription.pending_removals
        }
        subscription.removal_times = removal_times
        return frozenset(
            name for name, (_, at) in removal_times.items() if at is not None and at <= now
        )

    def _listeners_drain(self) -> bool:
        """Whether connections of listeners that were replaced or removed may still be open."""
        listeners = self.subscriptions.get(LISTENER)
        if listeners is not None and listeners.pending_removals:
            return True
        # What a client has from an older stream may be used by listeners that drain now.
        changed_at = [self._resumed_at, listeners.sent_at if listeners is not None else None]
        now = self._now()
        return any(at is not None and now < at + self._drain_time_s for at in changed_at)

    def _without_endpoints(
        self, subscription: Subscription, names: frozenset[str]
    ) -> frozenset[str]:
        """The clusters among `names` that never got endpoints, so that no route can use them.

        They need not wait for the routes, and must not: the client goes on warming them.
        """
        if not names or subscription.type_url != CLUSTER or not self.warming:
            return NO_NAMES
        client_has = subscription.client_has
        unused = {n for n in names & client_has.keys() if self.warming.is_waiting(client_has[n])}
        self.warming.clusters_removed(client_has[name] for name in unused)
        return frozenset(unused)

    def _set_pending_removals(self, subscription: Subscription, names: frozenset[str]) -> None:
        """These are gone and may still be referred to; those among them that were, since when."""
        before, now = subscription.pending_removals, self._now()
        subscription.pending_removals = names or NO_NAMES
        removal_times = subscription.removal_times
        subscription.removal_times = {
            name: removal_times[name] if name in before else RemovalTime(since=now)
            for name in names
        } or NO_REMOVAL_TIMES

    def _forget_removed(self, subscription: Subscription, names: frozenset[str]) -> None:
        """Forget what has left, and the endpoints it waited for."""
        if subscription.type_url == CLUSTER and self.warming:
            client_has = subscription.client_has
            self.warming.clusters_removed(client_has[name] for name in names & client_has.keys())
        left = subscription.pending_removals - names
        subscription.forget(names)
        self._set_pending_removals(subscription, left)

    def _names_to_resend(self, query: Query, state: Mapping[str, Resource]) -> set[str]:
        """The names among `state` that go out even if the client has them."""
        awaited = self.warming.awaited
        resend = set(awaited & state.keys()) if awaited and query.type_url == ENDPOINT else set()
        if query.force:
            resend |= set(filter(query.watch.covers, state))
        return resend

    def _next_nonce(self) -> str:
        """A nonce no other stream uses, as clients may bring an old stream's to a new one.

        https://github.com/envoyproxy/envoy/issues/30155
        """
        self._responses += 1
        return f"{self.nonce_prefix}-{self._responses}"

    def _record_sent(self, type_url: str, resources: Mapping[str, Resource]) -> None:
        """Keep book of what is awaited and of what expires, as these resources go out."""
        self._record_ttls(self.subscriptions[type_url], resources)
        if type_url == CLUSTER:
            self.warming.clusters_sent(resources.values())
        elif type_url == ENDPOINT:
            self.warming.endpoints_sent(resources)
