"""The clients that are to be pushed to: in order, each at most once, and no change is lost."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Hashable
from typing import Generic, TypeVar

from xds_server.pushing._push_request import PushRequest

K = TypeVar("K", bound=Hashable)


class PushQueue(Generic[K]):
    """First in, first out, by client. A client waits at most once, its requests merged.

    Between `dequeue` and `mark_done` a client is being pushed to; requests that come for it
    meanwhile are merged, and put it at the end of the queue when it is done.
    """

    def __init__(self) -> None:
        self._waiting: dict[K, PushRequest] = {}
        self._order: deque[K] = deque()  # may still name keys that were discarded
        self._in_flight: dict[K, PushRequest | None] = {}
        self._waiters: deque[asyncio.Future[None]] = deque()
        self._shut_down = False
        self._merged: tuple[PushRequest, PushRequest, PushRequest] | None = None

    def __len__(self) -> int:
        return len(self._waiting)

    def enqueue(self, key: K, request: PushRequest) -> None:
        """Let `key` wait for a push of `request`; ignored once shut down."""
        if self._shut_down:
            return
        if key in self._in_flight:
            meanwhile = self._in_flight[key]
            self._in_flight[key] = request if meanwhile is None else self._merge(meanwhile, request)
        elif key in self._waiting:
            self._waiting[key] = self._merge(self._waiting[key], request)
        else:
            self._waiting[key] = request
            self._order.append(key)
            self._wake_one()

    async def dequeue(self) -> tuple[K, PushRequest] | None:
        """Return the next client and its request, waited for; None once shut down and drained."""
        while not self._waiting:
            if self._shut_down:
                return None
            waiter = asyncio.get_running_loop().create_future()
            self._waiters.append(waiter)
            try:
                await waiter
            except asyncio.CancelledError:
                if waiter.done() and not waiter.cancelled():
                    self._wake_one()  # It was woken, and takes no client; so wake another.
                raise
            finally:
                if waiter in self._waiters:
                    self._waiters.remove(waiter)
        while (key := self._order.popleft()) not in self._waiting:
            pass
        request = self._waiting.pop(key)
        self._in_flight[key] = None
        return key, request

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

    def shut_down(self) -> None:
        """Accept no more requests; those that wait are still handed out."""
        self._shut_down = True
        while self._waiters:
            self._wake_one()

    def _merge(self, before: PushRequest, request: PushRequest) -> PushRequest:
        """Merge two requests; clients that wait for the same two share the result."""
        known = self._merged
        if known is None or known[0] is not before or known[1] is not request:
            known = self._merged = (before, request, before.merge(request))
        return known[2]

    def _wake_one(self) -> None:
        while self._waiters:
            waiter = self._waiters.popleft()
            if not waiter.done():
                waiter.set_result(None)
                return
