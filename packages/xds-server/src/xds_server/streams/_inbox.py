"""The requests of one stream that have come and are not handled yet."""

from __future__ import annotations

import asyncio
import math
import time
from collections.abc import Awaitable, Callable

from mesh_lifecycle import Clock
from xds_server._errors import Refused
from xds_server._signal import Signal
from xds_server.protocol._request import DeltaRequest, SotwRequest
from xds_server.streams._rate_limit import RateLimit
from xds_server.streams._work_share import LARGE_BYTES, WorkShare

_MOST_WAITING = 8
"""Requests that are received before the worker handles them; the client waits with more. A large
one waits alone."""

Read = Callable[[], Awaitable[object]]
"""Returns the next message of a client, or anything but bytes when there are no more."""
Parse = Callable[[bytes], SotwRequest | DeltaRequest]
TakeIn = Callable[[SotwRequest | DeltaRequest], bool]
"""Takes in a request at once, or returns False if the worker has to."""


class Inbox:
    """Receives requests, and wakes the worker for each; `ended` says that no more will come."""

    __slots__ = (
        "_has_large",
        "_holder",
        "_parse",
        "_rate",
        "_refused",
        "_requests",
        "_space",
        "_wake",
        "_work_share",
        "ended",
    )

    def __init__(
        self,
        first: SotwRequest | DeltaRequest,
        *,
        parse: Parse,
        requests_per_second: float | None,
        clock: Clock,
        wake: Signal,
        work_share: WorkShare,
        holder: str,
    ) -> None:
        # A list, as it is short, and a deque's first block costs every idle stream 600 bytes.
        self._requests = [first]
        self._parse = parse
        self._rate = (
            None
            if requests_per_second is None
            else RateLimit(requests_per_second, longest_wait_s=math.inf, clock=clock)
        )
        self._wake = wake
        self._space = Signal()
        self._refused: Refused | None = None
        self._has_large = False
        self._work_share = work_share
        self._holder = holder
        self.ended = False

    @property
    def first(self) -> SotwRequest | DeltaRequest | None:
        """The oldest request, which stays here; None if there is none."""
        return self._requests[0] if self._requests else None

    def pop(self) -> SotwRequest | DeltaRequest | None:
        """Return the oldest request and drop it from here; None if there is none."""
        if not self._requests:
            return None
        self._space.set()
        return self._requests.pop(0)

    def finish(self) -> None:
        """Raise `Refused` if no more will come because a message can't be taken."""
        refused, self._refused = self._refused, None
        if refused is not None:
            raise refused

    def _must_wait(self, *, is_large: bool) -> bool:
        waiting = len(self._requests)
        return waiting >= _MOST_WAITING or (waiting > 0 and (is_large or self._has_large))

    async def receive(self, read: Read, take_in: TakeIn) -> None:
        """Receive until the client sends no more, then wait to be cancelled.

        With no other request before it, a request goes to `take_in` first: most are ACKs, which
        need no worker, and waking it takes longer than all else. A message that can't be parsed is
        the last: the worker refuses the stream once it has written what it is writing, for gRPC
        takes no status before. Raises `Refused`, as `take_in` does.
        """
        while isinstance(data := await read(), bytes):
            is_large = len(data) > LARGE_BYTES
            while self._must_wait(is_large=is_large):
                self._space.clear()
                await self._space.wait()
            if self._rate is not None:
                await self._rate.admit()
            if is_large:
                await self._work_share.wait(self._holder)
            began = time.monotonic() if is_large else 0.0
            try:
                request = self._parse(data)
            except Refused as refused:
                self._refused = refused.with_traceback(None)
                break
            # Both may name ten thousand resources, and the next is long in coming.
            del data
            if self._requests or not take_in(request):
                self._has_large = is_large
                self._requests.append(request)
                self._wake.set()
            del request
            if is_large:
                self._work_share.count_work(self._holder, time.monotonic() - began)
        self.ended = True
        self._wake.set()
        await asyncio.get_running_loop().create_future()  # The worker ends when it has handled all.
