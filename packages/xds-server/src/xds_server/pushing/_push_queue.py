"""Who is to be pushed to next: everybody at most once, in turn, and nothing is lost."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Hashable
from typing import Generic, TypeVar

from xds_server.pushing._push_request import PushRequest

K = TypeVar("K", bound=Hashable)


class PushQueue(Generic[K]):
    """First in, first out, by client. A client waits at most once, its requests merged.

    Between `dequeue` and `mark_done` a client is being pushed to; what comes for it meanwhile
    waits, merged, and puts it at the end of the queue when it is done.
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
        """`key` is to hear of `request`; ignored once shut down."""
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
        """The next in turn, waited for; None once shut down and drained."""
        while not self._waiting:
            if self._shut_down:
                return None
            waiter = asyncio.get_running_loop().create_future()
            self._waiters.append(waiter)
            try:
                await waiter
            except asyncio.CancelledError:
                if waiter.done() and not waiter.cancelled():
                    self._wake_one()  # It was this taker's turn, and it is not taken.
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
        """The push to `key` is over; what came meanwhile is queued."""
        meanwhile = self._in_flight.pop(key, None)
        if meanwhile is not None:
            self.enqueue(key, meanwhile)

    def is_behind(self, key: K, *, taken: bool) -> bool:
        """Whether something waits for `key`; `taken`: it works on what it was last handed."""
        if key in self._in_flight:
            return not taken or self._in_flight[key] is not None
        return key in self._waiting

    def discard(self, key: K) -> None:
        """`key` is gone for good."""
        self._waiting.pop(key, None)
        self._in_flight.pop(key, None)
        if not self._waiting:
            self._order.clear()

    def shut_down(self) -> None:
        """Take no more; what waits is still handed out."""
        self._shut_down = True
        while self._waiters:
            self._wake_one()

    def _merge(self, before: PushRequest, request: PushRequest) -> PushRequest:
        """Both as one; those who wait for the same, such as all who do not read, share it."""
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
