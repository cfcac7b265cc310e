"""Make before break, the second half: when removed resources are taken away from a client.

A removed cluster, endpoints or route may still be used: by routes and listeners that the client has
not replaced yet, and by connections of listeners that it has replaced and that drain.
https://www.envoyproxy.io/docs/envoy/latest/api-docs/xds_protocol#eventual-consistency-considerations
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

from xds_server.protocol._names import NO_NAMES
from xds_server.protocol._resources_by_name import NO_RESOURCES
from xds_server.protocol._type_urls import CLUSTER, ENDPOINT, LISTENER, ROUTE, in_push_order
from xds_server.subscriptions._subscription import NO_REMOVAL_TIMES, RemovalTime, Subscription

_WAIT_FOR_REFERRERS = frozenset({CLUSTER, ENDPOINT, ROUTE})
"""Types that routes and listeners refer to; resources of the others are removed at once."""


class Removals:
    """The removals that wait, on all subscriptions of one stream."""

    __slots__ = ("_now", "_order_wait_s", "_subscriptions", "drain_time_s", "resumed_at")

    def __init__(
        self,
        subscriptions: Mapping[str, Subscription],
        *,
        order_wait_s: float,
        drain_time_s: float,
        now: Callable[[], float],
    ) -> None:
        self._subscriptions = subscriptions
        self._order_wait_s = order_wait_s
        self._now = now
        self.drain_time_s = drain_time_s
        self.resumed_at: float | None = None
        """When the client said that it has resources from an older stream."""

    def set_pending(self, subscription: Subscription, names: frozenset[str]) -> None:
        """Let exactly these removals of a type wait; those that waited before keep their times."""
        before, now = subscription.pending_removals, self._now()
        subscription.pending_removals = names or NO_NAMES
        if not names:
            subscription.answer = NO_RESOURCES
        times = subscription.removal_times
        subscription.removal_times = {
            name: times[name] if name in before else RemovalTime(since=now) for name in names
        } or NO_REMOVAL_TIMES

    def due(self) -> list[tuple[Subscription, frozenset[str]]]:
        """Return the names to remove now, by type, in the reverse of the push order."""
        return [
            (subscription, names)
            for type_url in reversed(in_push_order(self._subscriptions))
            if (subscription := self._subscriptions[type_url]).pending_removals
            and (names := self._due_of(subscription))
        ]

    def due_times(self) -> Iterator[float]:
        """Yield the times at which removals that wait for the client go on without it."""
        for subscription in self._subscriptions.values():
            for name in subscription.pending_removals:
                since, due_at = subscription.removal_times[name]
                yield since + self._order_wait_s if due_at is None else due_at

    def _due_of(self, subscription: Subscription) -> frozenset[str]:
        """Return the names of one type to remove now.

        First the client has to accept the resources that replace them; then, if listeners changed,
        the connections of the old ones drain.
        """
        if subscription.type_url not in _WAIT_FOR_REFERRERS:
            return subscription.pending_removals
        now = self._now()
        all_answered = all(other.is_answered for other in self._subscriptions.values())
        due_at = now + self.drain_time_s if self._listeners_drain() else now
        times = {
            name: RemovalTime(since=since, due_at=due_at)
            if known is None and (all_answered or now >= since + self._order_wait_s)
            else RemovalTime(since=since, due_at=known)
            for name, (since, known) in subscription.removal_times.items()
            if name in subscription.pending_removals
        }
        subscription.removal_times = times
        return frozenset(name for name, (_, at) in times.items() if at is not None and at <= now)

    def _listeners_drain(self) -> bool:
        """Return whether replaced or removed listeners may still have open connections."""
        listeners = self._subscriptions.get(LISTENER)
        if listeners is not None and listeners.pending_removals:
            return True
        # Resources that a client has from an older stream may be used by listeners that drain now.
        changed_at = [self.resumed_at, listeners.sent_at if listeners is not None else None]
        now = self._now()
        return any(at is not None and now < at + self.drain_time_s for at in changed_at)
