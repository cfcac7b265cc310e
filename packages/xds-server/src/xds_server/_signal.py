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

    def is_set(self) -> bool:
        return self._set

    def wait(self) -> asyncio.Future[None]:
        """Done when it is set. Not a coroutine, whose frame would be as long as it waits."""
        self._waiter = asyncio.get_running_loop().create_future()
        if self._set:
            self._waiter.set_result(None)
        return self._waiter
