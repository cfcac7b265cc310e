"""Messages that were handed to the network and not yet read by the peer: how long, and how much.

A peer that does not read keeps one message pending, and no other peer's. It is closed when that
takes too long, or sooner when the pending messages are too many bytes: of all slow peers, or of one
holder, which may have any number of streams and connections. A message
of many megabytes takes its time also where the peer reads: where it is known how much a peer has
taken, the time counts anew with each `STEADY_BYTES`. It is the event loop that hands peers their
bytes, so time in which the loop did not come round is not counted.
"""

import asyncio
from collections import Counter
from collections.abc import Callable
from typing import Protocol

_LOOKS = 8
"""How often the loop has to come round until a peer may count as slow."""

_LARGE_PARTS = 8
"""A holder of less than such a part of all there may be is one of many, which may be short of CPU
all of them together; one of more gives way sooner."""

STEADY_BYTES = 256 * 1024
"""A peer that has taken as much since it was last looked at reads."""


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


class _Pending:
    """One message; since: when it was handed over, or the peer was last seen to read."""

    __slots__ = ("begun", "holder", "most", "seen", "since", "size", "taken")

    def __init__(
        self,
        begun: float,
        since: float,
        size: int,
        taken: Callable[[], int] | None,
        holder: str,
    ) -> None:
        self.begun = begun
        self.holder = holder
        self.since = since
        self.size = size
        self.taken = taken
        self.seen = 0 if taken is None else taken()
        self.most = self.seen + size + STEADY_BYTES

    def has_read(self) -> bool:
        """Return whether the peer has taken enough since it was last seen to read."""
        if self.taken is None:
            return False
        taken = self.taken()
        if taken - self.seen < STEADY_BYTES or taken > self.most:
            return False  # More than all of it, and it is still pending: that were others.
        self.seen = taken
        return True


class PendingWrites:
    """The pending messages of all peers.

    longest_s: a peer that has read nothing of its message for this long is closed; None: for no
    time. max_bytes: with more pending, the holder of most bytes gives way: those of its peers are
    closed that have read nothing for longest, if for more than `slow_s`, or for `large_slow_s` if
    it has an eighth of them or more. max_holder_bytes: with as much pending to one
    holder, the same is done to its peers, after `slow_s`; None: no bound.
    """

    def __init__(
        self,
        *,
        longest_s: float | None,
        max_bytes: int,
        slow_s: float,
        clock: Clock,
        max_holder_bytes: int | None = None,
        large_slow_s: float | None = None,
    ) -> None:
        self._longest_s = longest_s
        self._max_bytes = max_bytes
        self._slow_s = slow_s
        self._max_holder_bytes = max_holder_bytes
        self._large_slow_s = slow_s if large_slow_s is None else min(slow_s, large_slow_s)
        self._clock = clock
        # Those come first whose peer has read nothing for longest.
        self._pending: dict[Reader, _Pending] = {}
        self._of_holder: Counter[str] = Counter()
        self._bytes = 0
        self._any = asyncio.Event()
        self._look_due_at: float | None = None
        self._lost_s = 0.0

    @property
    def bytes(self) -> int:
        """The bytes of all pending messages."""
        return self._bytes

    def bytes_to_readers(self, within_s: float) -> int:
        """Return the bytes pending to peers that have read something within so many seconds.

        A message that was handed over since then counts, too.
        """
        self._look()
        from_then = self._now() - within_s
        return sum(each.size for each in self._pending.values() if each.since > from_then)

    def bytes_of(self, holder: str) -> int:
        """Return the bytes pending to one holder."""
        return self._of_holder.get(holder, 0)

    def is_held_up(self, holder: str) -> bool:
        """Return whether as much is pending to one holder as may be."""
        most = self._max_holder_bytes
        return most is not None and bool(holder) and self.bytes_of(holder) >= most

    def begin(
        self,
        reader: Reader,
        size: int,
        taken: Callable[[], int] | None = None,
        *,
        holder: str = "",
    ) -> None:
        """A message is handed to the network; of one reader one at a time.

        taken: returns how many bytes the peer has taken so far, of this message and of others; None
        if that is not known. holder: who has the peer, as far as it is proven; empty: it
        is counted by itself.
        """
        self._pending[reader] = _Pending(self._clock.monotonic(), self._now(), size, taken, holder)
        self._bytes += size
        if holder:
            self._of_holder[holder] += size
        self._any.set()
        if self._bytes > self._max_bytes:
            self._look()
            self._make_room()

    def end(self, reader: Reader) -> float:
        """The reader's message was read, or is given up. Returns for how long it was pending."""
        pending = self._pending.pop(reader, None)
        if pending is None:
            return 0.0
        self._bytes -= pending.size
        if pending.holder:
            self._of_holder[pending.holder] -= pending.size
            if not self._of_holder[pending.holder]:
                del self._of_holder[pending.holder]
        return self._clock.monotonic() - pending.begun

    async def run(self) -> None:
        """Close peers that do not read, until cancelled."""
        while True:
            await self._any.wait()
            while self._pending:
                due_at = self._look_due_at = self._clock.monotonic() + self._slow_s / _LOOKS
                await self._clock.sleep(self._slow_s / _LOOKS)
                self._lost_s += max(0.0, self._clock.monotonic() - due_at)
                self._look()
                self._make_room()
                self._close_overdue()
            self._look_due_at = None
            self._any.clear()

    def _now(self) -> float:
        """Return the time without that in which the loop did not come round."""
        now = self._clock.monotonic()
        if self._look_due_at is not None:
            now = min(now, self._look_due_at)
        return now - self._lost_s

    def _look(self) -> None:
        """Let the time count anew for the peers that have read."""
        now = self._now()
        reading = [reader for reader, pending in self._pending.items() if pending.has_read()]
        for reader in reading:
            pending = self._pending.pop(reader)
            pending.since = now
            self._pending[reader] = pending

    def _close_overdue(self) -> None:
        while self._longest_s is not None and self._waited_s() >= self._longest_s:
            self._close(next(iter(self._pending)), "it has not read for too long")

    def _make_room(self) -> None:
        while self._bytes > self._max_bytes and (reader := self._to_give_way()) is not None:
            self._close(reader, "it reads slowly while too much waits for slow clients")
        held_up = [each for each in self._of_holder if self.is_held_up(each)]
        for holder in held_up:
            while self.is_held_up(holder):
                reader = self._slowest(holder)
                if reader is None or self._waited_s(reader) < self._slow_s:
                    break
                self._close(reader, "it reads slowly while too much waits for its holder's clients")

    def _to_give_way(self) -> Reader | None:
        """Return whom to close as too much is pending in all; None if all have read of late."""
        holder, most = next(iter(self._of_holder.most_common(1)), ("", 0))
        if holder and most * _LARGE_PARTS >= self._max_bytes:
            reader = self._slowest(holder)
            if reader is not None and self._waited_s(reader) >= self._large_slow_s:
                return reader
        first = next(iter(self._pending), None)
        return first if first is not None and self._waited_s() >= self._slow_s else None

    def _slowest(self, holder: str) -> Reader | None:
        """Return the one of a holder's peers that has read nothing for longest."""
        return next((each for each, p in self._pending.items() if p.holder == holder), None)

    def _waited_s(self, reader: Reader | None = None) -> float:
        """Return for how long a peer, or the first, has read nothing; negative without one."""
        pending = next(iter(self._pending.values()), None)
        if reader is not None:
            pending = self._pending[reader]
        return -1.0 if pending is None else self._now() - pending.since

    def _close(self, reader: Reader, reason: str) -> None:
        size, waited_s = self._pending[reader].size, self._waited_s(reader)
        self.end(reader)
        reader.close_for_not_reading(waited_s=waited_s, size=size, reason=reason)
