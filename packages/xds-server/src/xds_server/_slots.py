"""How many clients are being written to at once."""

from __future__ import annotations

import asyncio


class Slot:
    """One place among those being written to; given back once, whoever asks first."""

    def __init__(self, slots: asyncio.Semaphore) -> None:
        self._slots: asyncio.Semaphore | None = slots
        self._timer: asyncio.TimerHandle | None = None

    def release_after(self, seconds: float) -> None:
        """Give the place back by then at the latest: who reads slowly holds nobody up."""
        self._timer = asyncio.get_running_loop().call_later(seconds, self.release)

    def release(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if self._slots is not None:
            self._slots.release()
            self._slots = None


class Slots:
    """A bounded number of places."""

    def __init__(self, number: int) -> None:
        self._free = asyncio.Semaphore(number)

    async def acquire(self) -> Slot:
        await self._free.acquire()
        return Slot(self._free)
