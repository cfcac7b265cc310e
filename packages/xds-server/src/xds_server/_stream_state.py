"""One stream of either dialect, without its I/O: requests and changes in, responses out.

What both dialects share: the order of a push, the endpoints that follow changed clusters, and
removals that wait until nothing refers to them any more.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Generic, TypeAlias, TypeVar

from ._generator import Generated, Watch
from ._resource import Resource
from ._subscription import Ask, Received, Response, Subscription, nonces
from ._type_urls import CLUSTER, ENDPOINT, in_push_order
from ._warming import endpoints_of

R = TypeVar("R")
"""The request of a dialect."""

Source: TypeAlias = Callable[[Ask], Generated | None]
"""Makes what an ask is for; None: there is nothing to say."""

_WAIT_FOR_REFERRERS = frozenset({CLUSTER, ENDPOINT})
"""Removed only when the routes and listeners that referred to them are known to be replaced.

https://www.envoyproxy.io/docs/envoy/latest/api-docs/xds_protocol#eventual-consistency-considerations
"""


class StreamState(ABC, Generic[R]):
    """The subscriptions of one stream.

    `receive` takes in a request and says what has to be generated for it; `answers` and `push`
    then make the responses, each only when the one before is taken, so that a client that reads
    slowly gets what is newest when it has read. `removals` may have more to send later.
    """

    def __init__(
        self,
        *,
        nonce_prefix: str,
        identifier: str,
        removal_wait_s: float,
        now: Callable[[], float],
        version: Callable[[], str],
    ) -> None:
        self.subscriptions: dict[str, Subscription] = {}
        self.nonce_prefix = nonce_prefix
        self._nonces = nonces(nonce_prefix)
        self._identifier = identifier
        self._removal_wait_s = removal_wait_s
        self._now = now
        self._version = version
        # Names of endpoints that clusters sent on this stream wait for. They may be asked for
        # only later: a delta client that reconnects says it has them, and warms all the same.
        self._awaited: set[str] = set()

    @abstractmethod
    def receive(self, request: R) -> Received:
        """Take in a request. A request is answered by the asks it comes to, or by nothing."""

    def answers(self, asks: Iterable[Ask], source: Source) -> Iterator[Response]:
        """What a request is answered with."""
        for ask in asks:
            yield from self._made(ask, source)
        yield from self._owed(source)
        yield from self.removals()

    def push(self, source: Source) -> Iterator[Response]:
        """What brings the client up to date, in the order that breaks nothing."""
        for ask in self._pushes():
            yield from self._made(ask, source)
            if ask.type_url != CLUSTER:
                # After the clusters come the endpoints anyway, with what is owed among them.
                yield from self._owed(source)
        yield from self._owed(source)
        yield from self.removals()

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

    def _pushes(self) -> tuple[Ask, ...]:
        return tuple(
            Ask(type_url=type_url, watch=subscription.watch)
            for type_url in in_push_order(self.subscriptions)
            if (subscription := self.subscriptions[type_url]).wildcard or subscription.names
        )

    def _owed(self, source: Source) -> Iterator[Response]:
        """Endpoints the client waits for but has not asked for."""
        subscription = self.subscriptions.get(ENDPOINT)
        if subscription is None or not self._awaited:
            return
        names = frozenset(filter(subscription.watch.covers, self._awaited))
        if not names:
            return
        self._awaited -= names
        watch = Watch(type_url=ENDPOINT, names=names)
        ask = Ask(type_url=ENDPOINT, watch=watch, asked=True, force=True)
        yield from self._made(ask, source)

    def removals(self) -> Iterator[Response]:
        """The removals whose time has come, in the reverse of the push order."""
        due = [
            subscription
            for type_url in reversed(in_push_order(self.subscriptions))
            if (subscription := self.subscriptions[type_url]).leaving
            and self._may_leave(subscription)
        ]
        for subscription in due:
            yield self._farewell(subscription)

    def removals_due_at(self) -> float | None:
        """When removals that wait for the client's ACKs go out without them."""
        return min(
            (
                subscription.leaving_since + self._removal_wait_s
                for subscription in self.subscriptions.values()
                if subscription.leaving
            ),
            default=None,
        )

    def _may_leave(self, subscription: Subscription) -> bool:
        return (
            subscription.type_url not in _WAIT_FOR_REFERRERS
            or self._now() >= subscription.leaving_since + self._removal_wait_s
            or all(other.settled for other in self.subscriptions.values())
        )

    def _leave(self, subscription: Subscription, names: frozenset[str]) -> None:
        if names and not subscription.leaving:
            subscription.leaving_since = self._now()
        subscription.leaving = names

    def _drop_leaving(self, subscription: Subscription) -> frozenset[str]:
        """Forget what is leaving, and the endpoints it waited for."""
        names = subscription.leaving
        if subscription.type_url == CLUSTER:
            for name in names & subscription.held.keys():
                self._awaited.discard(endpoints_of(subscription.held[name]) or "")
        subscription.forget(names)
        subscription.leaving = frozenset()
        return names

    def _again(self, ask: Ask, state: Mapping[str, Resource]) -> set[str]:
        """The names among `state` that go out even if the client has them."""
        again = self._awaited & state.keys() if ask.type_url == ENDPOINT else set[str]()
        if ask.force:
            again |= set(filter(ask.watch.covers, state))
        return again

    def _note_sent(self, type_url: str, resources: Mapping[str, Resource]) -> None:
        """Keep book of which endpoints are awaited, as these resources go out."""
        if type_url == CLUSTER:
            self._awaited.update(
                name for cluster in resources.values() if (name := endpoints_of(cluster))
            )
        elif type_url == ENDPOINT and self._awaited:
            self._awaited.difference_update(resources)
