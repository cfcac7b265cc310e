"""How many clients are being written to at once.

A slot bounds the memory of a push to clients that read: what they are sent is not all made at
once. It is not there to wait for those who do not read: when nobody who has a slot takes
anything, the next ones are served.
"""

from __future__ import annotations

import asyncio

from xds_server._signal import Signal

_PATIENCE_S = 0.25
"""With every slot taken, nobody who holds one may keep the others for longer without a sign.

Clients on a busy machine read nothing for a hundred milliseconds, all of them together. Were they
taken for clients that do not read, a push would be in memory for everybody at once. A client that
really does not read is waited for once: it has no slot while a response to it is under way.
"""


class PushPermit:
    """One place among those being written to; given back once, whoever asks first."""

    __slots__ = ("_throttle", "_timer")

    def __init__(self, slots: PushThrottle | None) -> None:
        self._throttle = slots
        self._timer: asyncio.TimerHandle | None = None

    def release_after(self, seconds: float) -> None:
        """Give the place back by then at the latest."""
        if self._throttle is not None:
            self._timer = asyncio.get_running_loop().call_later(seconds, self.release)

    def release(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if self._throttle is not None:
            slots, self._throttle = self._throttle, None
            slots._released(self)


class PushThrottle:
    """A bounded number of places, for one task to hand out."""

    def __init__(self, number: int, *, patience_s: float = _PATIENCE_S) -> None:
        self._number = self._allowed = number
        self._patience_s = patience_s
        # Those who are expected to read; who has kept everybody waiting no longer counts.
        self._held: set[PushPermit] = set()
        self._holders_ignored = False
        self._freed = Signal()
        self._timer: asyncio.TimerHandle | None = None

    async def acquire(self) -> PushPermit:
        """A slot, as soon as one is free or those who hold them are seen not to read."""
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
        """What takes no place: for a client that is not going to be written to just now."""
        return PushPermit(None)

    def _watch(self, *, resend: bool = False) -> None:
        loop = asyncio.get_running_loop()
        due_at = loop.time() + self._patience_s
        self._timer = loop.call_at(due_at, self._stop_counting_holders, due_at, resend)

    def _stop_counting_holders(self, due_at: float, resend: bool) -> None:  # noqa: FBT001  (a callback's)
        late_s = asyncio.get_running_loop().time() - due_at
        if late_s > self._patience_s and not self._holders_ignored and not resend:
            # The loop was busy, so that nobody could be seen to read: look again, once. A loop that
            # is always busy is no reason to hold up the others for ever.
            self._watch(resend=True)
            return
        self._held.clear()
        if self._holders_ignored:
            # More each time, so that a thousand who do not read cost a few turns and not ten.
            self._allowed *= 2
        self._holders_ignored = True
        self._freed.set()

    def _released(self, permit: PushPermit) -> None:
        if permit in self._held:
            self._held.discard(permit)
            self._allowed = self._number
            self._holders_ignored = False
            self._freed.set()
