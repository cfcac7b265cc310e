"""The clients that are to be pushed to: in order, each at most once, and no change is lost."""

from __future__ import annotations

from collections import deque
from collections.abc import Hashable
from typing import Generic, TypeVar

from xds_server.pushing._push_request import PushRequest

K = TypeVar("K", bound=Hashable)


class PushQueue(Generic[K]):
    """First in, first out, by client. A client waits at most once, its requests merged.

    Between `take` and `mark_done` a client is being pushed to; requests that come for it
    meanwhile are merged, and put it at the end of the queue when it is done.
    """

    def __init__(self) -> None:
        self._waiting: dict[K, PushRequest] = {}
        self._order: deque[K] = deque()  # may still name keys that were discarded
        self._in_flight: dict[K, PushRequest | None] = {}
        self._merged: tuple[PushRequest, PushRequest, PushRequest] | None = None

    def __len__(self) -> int:
        return len(self._waiting)

    def enqueue(self, key: K, request: PushRequest) -> None:
        """Let `key` wait for a push of `request`."""
        if key in self._in_flight:
            meanwhile = self._in_flight[key]
            self._in_flight[key] = request if meanwhile is None else self._merge(meanwhile, request)
        elif key in self._waiting:
            self._waiting[key] = self._merge(self._waiting[key], request)
        else:
            self._waiting[key] = request
            self._order.append(key)

    def next(self) -> K | None:
        """Return the client whose turn it is; None if none waits."""
        while self._order:
            if (key := self._order[0]) in self._waiting:
                return key
            self._order.popleft()
        return None

    def take(self, key: K) -> PushRequest:
        """Begin the push to the client that `next` returned; return its request."""
        self._order.popleft()
        self._in_flight[key] = None
        return self._waiting.pop(key)

    def mark_done(self, key: K) -> None:
        """End the push to `key`; requests that came meanwhile are queued."""
        meanwhile = self._in_flight.pop(key, None)
        if meanwhile is not None:
            self.enqueue(key, meanwhile)

    def is_behind(self, key: K, *, taken: bool) -> bool:
        """Return whether a request waits for `key`; `taken`: it has begun with the last one."""
        if key in self._in_flight:
            return not taken or self._in_flight[key] is not None
        return key in self._waiting

    def discard(self, key: K) -> None:
        """Forget `key`, which has gone."""
        self._waiting.pop(key, None)
        self._in_flight.pop(key, None)
        if not self._waiting:
            self._order.clear()

    def _merge(self, before: PushRequest, request: PushRequest) -> PushRequest:
        """Merge two requests; clients that wait for the same two share the result."""
        known = self._merged
        if known is None or known[0] is not before or known[1] is not request:
            known = self._merged = (before, request, before.merge(request))
        return known[2]
