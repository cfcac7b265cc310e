"""The last push to one client, for its status: the reasons, and how many resources of each type."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from datetime import UTC, datetime
from functools import lru_cache

from xds_server.monitoring._status import PushStatus, TypePush
from xds_server.protocol._resources_by_name import NO_NAMES
from xds_server.protocol._response import Response
from xds_server.subscriptions._subscription import Subscription


class PushCounts:
    """Counts the responses of one push as they are sent."""

    __slots__ = ("_removed", "_sent")

    def __init__(self) -> None:
        self._sent: dict[str, Collection[str]] = {}
        self._removed: dict[str, frozenset[str]] = {}

    def add(self, response: Response) -> None:
        """Count what one response brings; a resource that two of them bring counts once."""
        type_url = response.type_url
        before = self._sent.get(type_url)
        # The mapping of the first response is kept as it is, for many streams share it.
        self._sent[type_url] = (
            response.resources if before is None else {*before, *response.resources}
        )
        if response.removed:
            self._removed[type_url] = self._removed.get(type_url, NO_NAMES) | response.removed

    def status(
        self, subscriptions: Mapping[str, Subscription], *, reasons: tuple[str, ...], at: float
    ) -> PushStatus:
        """Return the status of the push when it was sent completely, `at` (Unix seconds)."""
        return PushStatus(
            reasons=reasons,
            at=datetime.fromtimestamp(at, tz=UTC),
            types=self._types(subscriptions),
        )

    def _types(self, subscriptions: Mapping[str, Subscription]) -> dict[str, TypePush]:
        """Return the counts of every type that the client watches."""
        return {
            type_url: self._count(type_url, subscription)
            for type_url, subscription in subscriptions.items()
        }

    def _count(self, type_url: str, subscription: Subscription) -> TypePush:
        sent = len(self._sent.get(type_url, ()))
        removed = len(self._removed.get(type_url, ()))
        return _type_push(sent, removed, max(0, len(subscription.client_has) - sent))


@lru_cache(maxsize=1024)
def _type_push(sent: int, removed: int, unchanged: int) -> TypePush:
    """One object for all clients of which the numbers are the same."""
    return TypePush(sent=sent, removed=removed, unchanged=unchanged)
