"""Hands the pushes that wait to their clients: the queue in its order, as fast as permits allow.

It is callbacks only: a task in between would be woken once for each client.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Hashable, Iterator
from contextlib import contextmanager
from typing import Generic, TypeVar

from xds_server.pushing._push_queue import PushQueue
from xds_server.pushing._push_request import PushRequest
from xds_server.pushing._push_throttle import PushPermit, PushThrottle

K = TypeVar("K", bound=Hashable)


class PushDispatch(Generic[K]):
    """The pushes that wait, and those under way.

    `start` begins a push to a client, which then calls `mark_done`; it is called between two steps
    of other tasks, never from a method of this class, so that changes that come one right after the
    other are merged. A client for which `reads_slowly` holds is waiting to be written to already,
    and takes none of the `concurrent` permits; the others have theirs for `longest_s` at most.
    """

    def __init__(
        self,
        start: Callable[[K, PushRequest, PushPermit], None],
        *,
        reads_slowly: Callable[[K], bool],
        concurrent: int,
        longest_s: float,
    ) -> None:
        self._start = start
        self._reads_slowly = reads_slowly
        self._queue: PushQueue[K] = PushQueue()
        self._throttle = PushThrottle(concurrent, longest_s=longest_s, room=self._schedule)
        self._loop: asyncio.AbstractEventLoop | None = None
        self._scheduled = False

    def __len__(self) -> int:
        """The number of clients that wait for a push."""
        return len(self._queue)

    @contextmanager
    def running(self) -> Iterator[None]:
        """Begin pushes for as long as the context lasts; those queued before are begun, too."""
        self._loop = asyncio.get_running_loop()
        self._schedule()
        try:
            yield
        finally:
            self._loop = None
            self._throttle.close()

    def enqueue(self, key: K, request: PushRequest) -> None:
        """Let a client wait for a push."""
        self._queue.enqueue(key, request)
        self._schedule()

    def mark_done(self, key: K) -> None:
        """End the push to a client; requests that came meanwhile are queued."""
        self._queue.mark_done(key)
        self._schedule()

    def discard(self, key: K) -> None:
        """Forget a client that has gone."""
        self._queue.discard(key)

    def is_behind(self, key: K, *, taken: bool) -> bool:
        """Return whether a request waits for a client; `taken`: it has begun with the last one."""
        return self._queue.is_behind(key, taken=taken)

    def _schedule(self) -> None:
        if self._loop is not None and not self._scheduled and self._queue:
            self._scheduled = True
            self._loop.call_soon(self._hand_out)

    def _hand_out(self) -> None:
        self._scheduled = False
        if self._loop is None:
            return
        queue, throttle = self._queue, self._throttle
        while (key := queue.next()) is not None:
            permit = throttle.unlimited_permit() if self._reads_slowly(key) else throttle.take()
            if permit is None:
                return  # The throttle tells of room.
            self._start(key, queue.take(key), permit)
