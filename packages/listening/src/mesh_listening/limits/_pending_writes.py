"""Messages on their way to peers that have not taken them yet: how long, and how much.

A peer that does not read keeps one message, and no other peer, waiting. It is closed when that
takes too long, or sooner when all that waits for slow peers is too much.
"""

import asyncio
from typing import Protocol


class Clock(Protocol):
    """Where the time is from, and how to wait."""

    def monotonic(self) -> float:
        """Seconds on a clock that never goes back."""

    async def sleep(self, seconds: float, /) -> None:
        """Wait for at least `seconds`."""


class Reader(Protocol):
    """Who is being written to."""

    def close_for_not_reading(self, *, waited_s: float, size: int, reason: str) -> None:
        """End it; the message of `size` bytes that it has not taken is of no use any more."""


class PendingWrites:
    """Every message handed to the network and not taken from it.

    longest_s: who has taken nothing for this long is closed; None: nobody is for that.
    max_bytes: beyond it, those that have kept a message waiting longest are closed, if for more
    than `slow_s`. clock: looked at every `slow_s` while anything waits.
    """

    def __init__(
        self, *, longest_s: float | None, max_bytes: int, slow_s: float, clock: Clock
    ) -> None:
        self._longest_s = longest_s
        self._max_bytes = max_bytes
        self._slow_s = slow_s
        self._clock = clock
        # Those that have waited longest come first.
        self._waiting: dict[Reader, tuple[float, int]] = {}
        self._bytes = 0
        self._any = asyncio.Event()

    @property
    def bytes(self) -> int:
        """All that waits."""
        return self._bytes

    def begin(self, reader: Reader, size: int) -> None:
        """A message is handed over; one a reader at a time."""
        self._waiting[reader] = (self._clock.monotonic(), size)
        self._bytes += size
        self._any.set()
        if self._bytes > self._max_bytes:
            self._make_room()

    def end(self, reader: Reader) -> float:
        """It was taken, or is given up; how many seconds it took."""
        taken = self._waiting.pop(reader, None)
        if taken is None:
            return 0.0
        since, size = taken
        self._bytes -= size
        return self._clock.monotonic() - since

    async def run(self) -> None:
        """Close who does not read, for ever."""
        while True:
            await self._any.wait()
            while self._waiting:
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
        """How long it is for whom it is longest."""
        for since, _ in self._waiting.values():
            return self._clock.monotonic() - since
        return -1.0

    def _close_first(self, reason: str) -> None:
        reader, (_, size) = next(iter(self._waiting.items()))
        reader.close_for_not_reading(waited_s=self.end(reader), size=size, reason=reason)
