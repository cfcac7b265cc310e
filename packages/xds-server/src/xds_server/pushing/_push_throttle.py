"""How many clients are written to at once.

The limit bounds the memory of a push to clients that read: their responses are not all generated at
once. Clients that do not read must not hold up the others: when no client with a permit reads
anything for a while, the next clients get permits.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable

_PATIENCE_S = 0.25
"""With all permits given, the others wait no longer than this without one being released.

Clients on a busy machine read nothing for a hundred milliseconds, all of them together. Were they
taken for clients that do not read, a push would be in memory for all clients at once. A client that
really does not read is waited for once: it needs no permit while a response to it is under way.
"""


class PushPermit:
    """The permission to write to one client; it can be released many times, and counts once."""

    __slots__ = ("_throttle",)

    def __init__(self, throttle: PushThrottle | None) -> None:
        self._throttle = throttle

    def release(self) -> None:
        """Give the permit back."""
        if self._throttle is not None:
            throttle, self._throttle = self._throttle, None
            throttle._on_release(self)


class PushThrottle:
    """A bounded number of permits, each given back after `longest_s` at the latest.

    There are two timers at most, however many permits are given: a timer for each would cost more
    than the permit.
    """

    def __init__(
        self,
        number: int,
        *,
        longest_s: float,
        room: Callable[[], None],
        patience_s: float = _PATIENCE_S,
    ) -> None:
        """`room` is called when `take` found no permit and one may be free again."""
        self._number = self._allowed = number
        self._longest_s = longest_s
        self._patience_s = patience_s
        self._room = room
        # Permits of clients that are expected to read, and when each is given back at the latest,
        # the first to be given back first. Those of clients that don't read are dropped.
        self._held: dict[PushPermit, float] = {}
        self._holders_ignored = False
        self._blocked_since: float | None = None
        self._looked_again = False
        self._patience: asyncio.TimerHandle | None = None
        self._expiry: asyncio.TimerHandle | None = None
        self._loop: asyncio.AbstractEventLoop | None = None

    def take(self) -> PushPermit | None:
        """Return a permit, or None if none is free and the clients that have them may yet read."""
        loop = self._loop
        if loop is None:
            loop = self._loop = asyncio.get_running_loop()
        if len(self._held) >= self._allowed:
            if self._blocked_since is None:
                self._blocked_since = loop.time()
                self._looked_again = False
            if self._patience is None:
                at = self._blocked_since + self._patience_s
                self._patience = loop.call_at(at, self._lose_patience, loop)
            return None
        permit = PushPermit(self)
        self._held[permit] = at = loop.time() + self._longest_s
        if self._expiry is None:
            self._expiry = loop.call_at(at, self._expire, loop)
        return permit

    @staticmethod
    def unlimited_permit() -> PushPermit:
        """Return a permit that does not count, for a client that is not written to just now."""
        return PushPermit(None)

    def close(self) -> None:
        """Forget all permits and stop the timers; it may be used again, in another loop too."""
        for timer in (self._patience, self._expiry):
            if timer is not None:
                timer.cancel()
        self._patience = self._expiry = self._blocked_since = self._loop = None
        self._held.clear()

    def _expire(self, loop: asyncio.AbstractEventLoop) -> None:
        now = loop.time()
        self._expiry = None
        while self._held:
            permit, at = next(iter(self._held.items()))
            if at > now:
                self._expiry = loop.call_at(at, self._expire, loop)
                return
            permit.release()

    def _lose_patience(self, loop: asyncio.AbstractEventLoop) -> None:
        """Stop counting the clients that have permits, if none was released for a while."""
        self._patience = None
        if self._blocked_since is None:
            return
        due_at = self._blocked_since + self._patience_s
        late_s = loop.time() - due_at
        if late_s < 0:  # A permit was released since the timer was set.
            self._patience = loop.call_at(due_at, self._lose_patience, loop)
            return
        if late_s > self._patience_s and not self._holders_ignored and not self._looked_again:
            # The loop was busy, so that no client could be seen to read: look again, once. A loop
            # that is always busy is no reason to hold up the others for ever.
            self._looked_again = True
            self._blocked_since = loop.time()
            at = self._blocked_since + self._patience_s
            self._patience = loop.call_at(at, self._lose_patience, loop)
            return
        self._held.clear()
        if self._holders_ignored:
            # More each time, so that a thousand clients that do not read cost a few waits, not ten.
            self._allowed *= 2
        self._holders_ignored = True
        self._blocked_since = None
        self._room()

    def _on_release(self, permit: PushPermit) -> None:
        if self._held.pop(permit, None) is not None:
            self._allowed = self._number
            self._holders_ignored = False
            if self._blocked_since is not None:
                self._blocked_since = None
                self._room()
