"""How many bytes are on their way to clients at once.

A large response is put together for its client, and copied by gRPC, only when there is room for it:
while less than so many bytes are on their way to clients that read, and in all. Clients that do not
read have their part of the second bound only, so they hold up the others for a quarter of a second.
Answers and pushes wait in one line, in which the response is no more than a reference to bytes that
all clients share.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from contextlib import suppress

from mesh_listening import PendingWrites, Reader

_PATIENCE_S = 0.25
"""A client reads if a response was begun, or a part of it was taken, within this time."""

_SMALL_BYTES = 64 * 1024
"""A response up to this size does not wait: a client that is to get little would else stand in line
behind a thousand that get everything."""


class WriteRoom:
    """The room for responses; `to_readers_bytes` and `most_bytes` are the two bounds.

    Each is exceeded by one response at most, so that a response may be larger than they are.
    """

    def __init__(self, pending: PendingWrites, *, to_readers_bytes: int, most_bytes: int) -> None:
        self._pending = pending
        self._to_readers_bytes = to_readers_bytes
        self._most_bytes = most_bytes
        self._waiting: deque[asyncio.Future[None]] = deque()
        self._look_again: asyncio.TimerHandle | None = None
        self._scheduled = False

    def __len__(self) -> int:
        """The number of responses that wait."""
        return len(self._waiting)

    def must_wait(self, size: int) -> bool:
        """Return whether a response of this size has to `wait` before it is begun."""
        return size > _SMALL_BYTES and (bool(self._waiting) or self._is_full())

    async def wait(self) -> None:
        """Wait for room; the caller then begins at once."""
        turn = asyncio.get_running_loop().create_future()
        self._waiting.append(turn)
        self._watch()
        try:
            await turn
        finally:
            with suppress(ValueError):  # unless it is cancelled it is not in there any more
                self._waiting.remove(turn)
            if not self._waiting:
                self._stop_watching()

    def begin(self, reader: Reader, size: int, taken: Callable[[], int] | None) -> None:
        """A response is handed to the network; of one client one at a time."""
        self._pending.begin(reader, size, taken)

    def end(self, reader: Reader) -> float:
        """The client has read it, or it is given up. Returns for how long it was pending."""
        took_s = self._pending.end(reader)
        self._schedule()
        return took_s

    def _is_full(self) -> bool:
        pending, most = self._pending, self._to_readers_bytes
        if pending.bytes > self._most_bytes:
            return True
        return pending.bytes >= most and pending.bytes_to_readers(_PATIENCE_S) >= most

    def _schedule(self) -> None:
        if self._waiting and not self._scheduled:
            self._scheduled = True
            asyncio.get_running_loop().call_soon(self._hand_out)

    def _hand_out(self) -> None:
        """Let the first go on; once it has begun, look whether there is room for the next."""
        self._scheduled = False
        if self._waiting and not self._is_full():
            turn = self._waiting.popleft()
            if not turn.done():
                turn.set_result(None)
            self._schedule()

    def _watch(self) -> None:
        """Look now and then whether those that are written to have stopped reading."""
        if self._look_again is None:
            loop = asyncio.get_running_loop()
            self._look_again = loop.call_later(_PATIENCE_S, self._look)

    def _look(self) -> None:
        self._look_again = None
        if self._waiting:
            self._schedule()
            self._watch()

    def _stop_watching(self) -> None:
        if self._look_again is not None:
            self._look_again.cancel()
            self._look_again = None
