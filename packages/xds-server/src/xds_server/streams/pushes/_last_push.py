"""The last push to one client, for its status: the reasons, and how many resources of each type."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from datetime import UTC, datetime
from functools import lru_cache
from types import MappingProxyType
from typing import NamedTuple, TypeAlias

from xds_server.monitoring._status import PushStatus, TypePush
from xds_server.protocol._names import NO_NAMES
from xds_server.protocol._response import Response
from xds_server.subscriptions._subscription import Subscription

_Counts: TypeAlias = tuple[tuple[str, int, int, int], ...]
"""By type: the numbers of resources that were sent, were removed, and are unchanged."""


class LastPush(NamedTuple):
    """The last push to one client; the times of a thousand of them are converted when asked."""

    reasons: tuple[str, ...]
    at: float
    types: Mapping[str, TypePush]

    def status(self) -> PushStatus:
        """Return the push as operators see it."""
        at = datetime.fromtimestamp(self.at, tz=UTC)
        return PushStatus(reasons=self.reasons, at=at, types=self.types)


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

    def finish(
        self, subscriptions: Mapping[str, Subscription], *, reasons: tuple[str, ...], at: float
    ) -> LastPush:
        """Return the push when it was sent completely, `at` (Unix seconds), with all types."""
        counts: list[tuple[str, int, int, int]] = []
        for type_url, subscription in subscriptions.items():
            sent = len(self._sent.get(type_url, ()))
            removed = len(self._removed.get(type_url, ()))
            unchanged = max(0, len(subscription.client_has) - sent)
            counts.append((type_url, sent, removed, unchanged))
        return LastPush(reasons, at, _types(tuple(counts)))


@lru_cache(maxsize=1024)
def _types(counts: _Counts) -> Mapping[str, TypePush]:
    """Return one mapping for all clients of which the numbers are the same."""
    return MappingProxyType(
        {
            type_url: TypePush(sent=sent, removed=removed, unchanged=unchanged)
            for type_url, sent, removed, unchanged in counts
        }
    )
