"""One stream of either dialect, without its I/O: requests and changes in, responses out.

Both dialects share the order of a push, what it waits for, the endpoints that follow changed
clusters, and the removals that wait until no other resource refers to them.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Generic, TypeVar

from msgspec.structs import replace

from xds_server.protocol._names import NO_NAMES
from xds_server.protocol._resource import Resource
from xds_server.protocol._resources_by_name import ResourcesByName
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
from xds_server.subscriptions._heartbeats import begin_due_heartbeat, record_ttls
from xds_server.subscriptions._push_contents import Generate, PushContents
from xds_server.subscriptions._push_waits import PushWaits
from xds_server.subscriptions._removals import Removals
from xds_server.subscriptions._subscription import (
    Query,
    RequestOutcome,
    Subscription,
)
from xds_server.subscriptions._warming import Warming

R = TypeVar("R")
"""The request of a dialect."""

_COME_FIRST = frozenset({CLUSTER, ENDPOINT})
"""The types that all others may refer to."""

_REFER = frozenset({LISTENER, SCOPED_ROUTE, ROUTE, VIRTUAL_HOST})
"""Types that refer to clusters: a client must not get newer ones than its clusters."""


class StreamState(ABC, Generic[R]):
    """The subscriptions of one stream.

    `receive` takes in a request and returns the queries to answer it with; `answers` and `push`
    then make the responses, each only when the one before was sent, so that a client that reads
    slowly gets the newest resources when it has read. `answers` without queries makes the responses
    that waited and are due. `identifier` is the control plane that the next responses name.
    """

    __slots__ = (
        "_contents",
        "_deferred",
        "_now",
        "_responses",
        "_version",
        "_waits",
        "identifier",
        "nonce_prefix",
        "removals",
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
        self._now = now
        self._version = version
        self.warming = Warming()
        self.removals = Removals(
            self.subscriptions, order_wait_s=order_wait_s, drain_time_s=drain_time_s, now=now
        )
        self._waits = PushWaits(
            self.subscriptions,
            self.warming,
            order_wait_s=order_wait_s,
            hold_until_ack_s=hold_until_ack_s,
            now=now,
        )
        self._contents: PushContents | None = None
        self._deferred: tuple[Query, ...] = ()
        self._begin()

    @abstractmethod
    def _begin(self) -> None:
        """Set the attributes that one dialect has besides."""

    @abstractmethod
    def receive(self, request: R) -> RequestOutcome:
        """Take in a request; return the queries that answer it, if any."""

    def answers(self, queries: Iterable[Query], generate: Generate) -> Iterator[Response]:
        """Make the responses to queries, and those that waited for the request before."""
        for query in queries:
            yield from self._answer(query, generate)
        if not self.has_pending():
            return
        yield from self._awaited_endpoints(generate)
        yield from self._due_removals()
        yield from self._awaited_endpoints(generate)
        yield from self._heartbeats()

    def answer_once(self, type_url: str, resources: Sequence[Resource]) -> Response:
        """Return a response of a type that is not watched; nothing of it is kept."""
        nonce, version = self._next_nonce(), self._version()
        tail = self._tail_once(type_url=type_url, version=version, nonce=nonce)
        return Response(
            type_url=type_url,
            nonce=nonce,
            version=version,
            body=self._body_once(resources),
            tail=tail,
            resources={each.name: each for each in resources},
        )

    @abstractmethod
    def _body_once(self, resources: Sequence[Resource]) -> bytes:
        """Return the resources of such a response."""

    @abstractmethod
    def _tail_once(self, *, type_url: str, version: str, nonce: str) -> bytes:
        """Return the rest of such a response."""

    def has_pending(self) -> bool:
        """Return whether `answers` without queries may make a response, now or later."""
        if self.warming.awaited:
            return True
        for subscription in self.subscriptions.values():  # called many times a push: no generator
            if subscription.pending_removals or subscription.shortest_ttl_s is not None:
                return True
        return False

    def is_waiting(self) -> bool:
        """Return whether time or the client may bring on a response: else `next_due_at` is None."""
        return self._waits.may_be_due or self.has_pending()

    def can_answer(self, query: Query) -> bool:
        """Return whether the answer is sure not to be newer than the clusters of the client."""
        if query.type_url not in _REFER:
            return True
        return self._contents is not None and self._contents.answer(query) is not None

    def defer(self, queries: tuple[Query, ...]) -> None:
        """Answer these queries in the next push, in the order of their types."""
        self._deferred += queries

    @property
    def has_deferred(self) -> bool:
        """Whether queries wait for the next push."""
        return bool(self._deferred)

    def push(self, generate: Generate) -> Iterator[Response | None]:
        """Make the responses that bring the client up to date, in the order of make before break.

        "Eventual consistency considerations": clusters first, endpoints after them, then listeners,
        then routes; what no resource refers to any more is removed last.

        All resources are generated when it begins. It yields None where it has to wait: the push
        then goes on when the client has sent another request, or at `next_due_at`.
        """
        while self._waits.for_all_answers():
            yield None
        contents = self._contents = self._generate_push(generate)
        for type_url in in_push_order(self.subscriptions):
            if type_url not in _COME_FIRST:
                yield from self._awaited_endpoints(generate)
                while self._waits.for_endpoints():
                    yield None
            while self._waits.for_answer(type_url):
                yield None
            for query, generated in contents.for_type(type_url):
                if self._is_outdated(query):
                    continue
                response = self._response_to(self._still_wanted(query), generated)
                if type_url == CLUSTER and ENDPOINT in self.subscriptions:
                    contents.add_referenced(ENDPOINT, self.warming.awaited, generate)
                if response is not None:
                    yield response
        while self._waits.for_routes():
            yield None
        self._contents = None
        if self.has_pending():
            yield from self.answers((), generate)

    def _generate_push(self, generate: Generate) -> PushContents:
        """Generate everything the client watches, as it is now; deferred queries come first."""
        deferred, self._deferred = self._deferred, ()
        watched = [
            subscription.query
            for subscription in self.subscriptions.values()
            if subscription.wildcard or subscription.names
        ]
        contents = PushContents([*deferred, *watched], generate)
        if new_routes := self._waits.begin(contents):
            contents.add_referenced(ROUTE, new_routes, generate)
        return contents

    def _is_outdated(self, query: Query) -> bool:
        """Return whether the client has asked for more since the push began, of a full-state type.

        The answer had all resources; those generated before would take the others away again.
        """
        subscription = self.subscriptions.get(query.type_url)
        if subscription is None or query.type_url not in FULL_STATE or query.watch.wildcard:
            return False
        return subscription.wildcard or not subscription.names <= query.watch.names

    def _still_wanted(self, query: Query) -> Query:
        """Return a query of the push without the names that the client has unsubscribed since."""
        subscription = self.subscriptions.get(query.type_url)
        if subscription is None or subscription.wildcard or subscription.watch is query.watch:
            return query
        wanted = (
            subscription.names if query.watch.wildcard else subscription.names & query.watch.names
        )
        return replace(query, watch=Watch(type_url=query.type_url, names=wanted))

    def _answer(self, query: Query, generate: Generate) -> Iterator[Response]:
        generated = self._contents.answer(query) if self._contents is not None else None
        response = self._response_to(query, generated if generated is not None else generate(query))
        if response is not None:
            yield response

    def _response_to(self, query: Query, generated: Generated | None) -> Response | None:
        return None if generated is None else self._respond(query, generated)

    @abstractmethod
    def _respond(self, query: Query, generated: Generated) -> Response | None:
        """Return the response that brings the client up to date; None if it is up to date."""

    @abstractmethod
    def _removal_response(self, subscription: Subscription, names: frozenset[str]) -> Response:
        """Return the response that takes away some of the pending removals."""

    def _awaited_endpoints(self, generate: Generate) -> Iterator[Response]:
        """Make the response with the endpoints that changed clusters wait for, unasked.

        "Resource warming": a cluster is warm only when a new response with its endpoints has come,
        even if they are the same.
        """
        subscription = self.subscriptions.get(ENDPOINT)
        if subscription is None or not self.warming.awaited:
            return
        names = subscription.watch.select_names(self.warming.awaited)
        if not names:
            return
        self.warming.stop_awaiting(names)
        watch = Watch(type_url=ENDPOINT, names=names)
        query = Query(type_url=ENDPOINT, watch=watch, requested=True, force=True)
        yield from self._answer(query, generate)

    @abstractmethod
    def _heartbeat(self, subscription: Subscription, resources: Mapping[str, Resource]) -> Response:
        """Return the response that keeps resources from expiring."""

    def _heartbeats(self) -> Iterator[Response]:
        """Make the responses that keep resources from expiring, when half of the TTL has passed."""
        for subscription in tuple(self.subscriptions.values()):
            if expiring := begin_due_heartbeat(subscription, now=self._now()):
                yield self._heartbeat(subscription, expiring)

    def _due_removals(self) -> Iterator[Response]:
        """Make the responses of the removals that are due.

        In the middle of a push there are none: the resources that the client has accepted by then
        need not be all that replace the removed ones.
        """
        if self._contents is None:
            for subscription, names in self.removals.due():
                yield self._removal_response(subscription, names)

    def next_due_at(self) -> float | None:
        """Return when the responses that wait for the client go on without it."""
        if not self.is_waiting():
            return None
        times: list[float] = []
        if self._contents is None:
            times += self.removals.due_times()
        times += [at for s in self.subscriptions.values() if (at := s.heartbeat_at) is not None]
        times += self._waits.due_times()
        return min(times, default=None)

    def _without_endpoints(
        self, subscription: Subscription, names: frozenset[str]
    ) -> frozenset[str]:
        """Return the clusters among `names` that never got endpoints, so that no route uses them.

        Their removal need not wait for the routes, and must not: the client goes on warming them.
        """
        if not names or subscription.type_url != CLUSTER or not self.warming:
            return NO_NAMES
        client_has = subscription.client_has
        unused = frozenset(
            name for name in names & client_has.keys() if self.warming.is_waiting(client_has[name])
        )
        self.warming.on_cluster_removal(client_has.only(unused))
        return unused

    def _forget_removed(self, subscription: Subscription, names: frozenset[str]) -> None:
        """Forget resources that are removed now, and the endpoints that such clusters awaited."""
        if subscription.type_url == CLUSTER and self.warming:
            client_has = subscription.client_has
            self.warming.on_cluster_removal(client_has.only(names))
        left = subscription.pending_removals - names
        subscription.forget(names)
        self.removals.set_pending(subscription, left)

    def _to_send(
        self, query: Query, state: ResourcesByName, new: Mapping[str, Resource]
    ) -> Mapping[str, Resource]:
        """Return the resources of `state` that are new, and those sent even if the client has them.

        Streams that are alike get one mapping, so that it is encoded once.
        """
        if query.force:
            return state
        awaited = self.warming.awaited
        if not awaited or query.type_url != ENDPOINT or len(new) == len(state):
            return new
        sent = state.only(awaited.union(new))
        return sent if len(sent) > len(new) else new

    def _next_nonce(self) -> str:
        # Clients may send an old stream's nonce: https://github.com/envoyproxy/envoy/issues/30155
        self._responses += 1
        return f"{self.nonce_prefix}-{self._responses}"

    def _on_response(self, type_url: str, resources: Mapping[str, Resource]) -> None:
        """Take note of endpoints that are awaited or brought now, and of resources that expire."""
        record_ttls(self.subscriptions[type_url], resources, now=self._now())
        if type_url == CLUSTER:
            self.warming.on_clusters(resources)
        elif type_url == ENDPOINT:
            self.warming.on_endpoints(resources)
