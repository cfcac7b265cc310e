"""How many clients are written to at once.

The limit bounds the memory of a push to clients that read: their responses are not all made at
once. Clients that do not read must not hold up the others: when no client with a permit reads
anything for a while, the next clients get permits.
"""

from __future__ import annotations

import asyncio
from functools import partial

from xds_server._signal import Signal

_PATIENCE_S = 0.25
"""With all permits given, the others wait no longer than this without one being released.

Clients on a busy machine read nothing for a hundred milliseconds, all of them together. Were they
taken for clients that do not read, a push would be in memory for all clients at once. A client that
really does not read is waited for once: it needs no permit while a response to it is under way.
"""


class PushPermit:
    """The permission to write to one client; it can be released many times, and counts once."""

    __throttle__ = ("_throttle", "_timer")

    def __init__(self, throttle: PushThrottle | None) -> None:
        self._throttle = throttle
        self._timer: asyncio.TimerHandle | None = None

    def release_after(self, seconds: float) -> None:
        """Release it after so many seconds at the latest."""
        if self._throttle is not None:
            self._timer = asyncio.get_running_loop().call_later(seconds, self.release)

    def release(self) -> None:
        """Give the permit back."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if self._throttle is not None:
            throttle, self._throttle = self._throttle, None
            throttle._released(self)


class PushThrottle:
    """A bounded number of permits, for one task to give out."""

    def __init__(self, number: int, *, patience_s: float = _PATIENCE_S) -> None:
        self._number = self._allowed = number
        self._patience_s = patience_s
        # Permits of clients that are expected to read; those of clients that don't are dropped.
        self._held: set[PushPermit] = set()
        self._holders_ignored = False
        self._freed = Signal()
        self._timer: asyncio.TimerHandle | None = None

    async def acquire(self) -> PushPermit:
        """Return a permit, as soon as one is free or the clients that have them do not read."""
        while len(self._held) >= self._allowed:
            self._freed.clear()
            self._watch()
            try:
                await self._freed.wait()
            finally:
                if self._timer is not None:
                    self._timer.cancel()
        permit = PushPermit(self)
        self._held.add(permit)
        return permit

    @staticmethod
    def unlimited() -> PushPermit:
        """Return a permit that does not count, for a client that is not written to just now."""
        return PushPermit(None)

    def _watch(self, *, again: bool = False) -> None:
        loop = asyncio.get_running_loop()
        due_at = loop.time() + self._patience_s
        self._timer = loop.call_at(
            due_at, partial(self._stop_counting_holders, due_at, again=again)
        )

    def _stop_counting_holders(self, due_at: float, *, again: bool) -> None:
        late_s = asyncio.get_running_loop().time() - due_at
        if late_s > self._patience_s and not self._holders_ignored and not again:
            # The loop was busy, so that no client could be seen to read: look again, once. A loop
            # that is always busy is no reason to hold up the others for ever.
            self._watch(again=True)
            return
        self._held.clear()
        if self._holders_ignored:
            # More each time, so that a thousand clients that do not read cost a few waits, not ten.
            self._allowed *= 2
        self._holders_ignored = True
        self._freed.set()

    def _released(self, permit: PushPermit) -> None:
        if permit in self._held:
            self._held.discard(permit)
            self._allowed = self._number
            self._holders_ignored = False
            self._freed.set()
