"""Messages that were handed to the network and not yet read by the peer: how long, and how much.

A peer that does not read keeps one message pending, and no other peer's. It is closed when that
takes too long, or sooner when the pending messages of all slow peers are too many bytes.
"""

import asyncio
from typing import Protocol


class Clock(Protocol):
    """The time, and how to wait."""

    def monotonic(self) -> float:
        """Seconds on a clock that never goes back."""

    async def sleep(self, seconds: float, /) -> None:
        """Wait for at least `seconds`."""


class Reader(Protocol):
    """A peer that messages are written to."""

    def close_for_not_reading(self, *, waited_s: float, size: int, reason: str) -> None:
        """End the connection, with the message of `size` bytes that was not read."""


class PendingWrites:
    """The pending messages of all peers.

    longest_s: a peer whose message is pending for this long is closed; None: for no time.
    max_bytes: with more pending, those peers are closed whose message is pending for longest, if
    for more than `slow_s`. clock: both are checked every `slow_s` while anything is pending.
    """

    def __init__(
        self, *, longest_s: float | None, max_bytes: int, slow_s: float, clock: Clock
    ) -> None:
        self._longest_s = longest_s
        self._max_bytes = max_bytes
        self._slow_s = slow_s
        self._clock = clock
        # The longest pending come first.
        self._pending: dict[Reader, tuple[float, int]] = {}
        self._bytes = 0
        self._any = asyncio.Event()

    @property
    def bytes(self) -> int:
        """The bytes of all pending messages."""
        return self._bytes

    def begin(self, reader: Reader, size: int) -> None:
        """A message is handed to the network; of one reader one at a time."""
        self._pending[reader] = (self._clock.monotonic(), size)
        self._bytes += size
        self._any.set()
        if self._bytes > self._max_bytes:
            self._make_room()

    def end(self, reader: Reader) -> float:
        """The reader's message was read, or is given up. Returns for how long it was pending."""
        pending = self._pending.pop(reader, None)
        if pending is None:
            return 0.0
        since, size = pending
        self._bytes -= size
        return self._clock.monotonic() - since

    async def run(self) -> None:
        """Close peers that do not read, until cancelled."""
        while True:
            await self._any.wait()
            while self._pending:
                await self._clock.sleep(self._slow_s)
                self._make_room()
                self._close_overdue()
            self._any.clear()

    def _close_overdue(self) -> None:
        while self._longest_s is not None and self._waited_s() >= self._longest_s:
            self._close_first("it has not read for too long")

    def _make_room(self) -> None:
        while self._bytes > self._max_bytes and self._waited_s() >= self._slow_s:
            self._close_first("it reads slowly while too much waits for slow clients")

    def _waited_s(self) -> float:
        """Return the time of the longest pending message; negative without one."""
        for since, _ in self._pending.values():
            return self._clock.monotonic() - since
        return -1.0

    def _close_first(self, reason: str) -> None:
        reader, (_, size) = next(iter(self._pending.items()))
        reader.close_for_not_reading(waited_s=self.end(reader), size=size, reason=reason)
