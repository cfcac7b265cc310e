"""Wakes one task that waits; an `asyncio.Event` costs three times as much, and streams are many."""

from __future__ import annotations

import asyncio


class Signal:
    """Set by anybody, waited for by one task at a time."""

    __slots__ = ("_set", "_waiter")

    def __init__(self) -> None:
        self._set = False
        self._waiter: asyncio.Future[None] | None = None

    def set(self) -> None:
        """Wake who waits, and whoever comes to wait before it is cleared."""
        self._set = True
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)

    def clear(self) -> None:
        self._set = False

    async def wait(self) -> None:
        """Until it is set; at once if it is."""
        if self._set:
            return
        self._waiter = asyncio.get_running_loop().create_future()
        try:
            await self._waiter
        finally:
            self._waiter = None
