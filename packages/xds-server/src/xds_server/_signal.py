"""Wakes one task that waits; an `asyncio.Event` costs three times as much, and streams are many."""

from __future__ import annotations

import asyncio


class Signal:
    """Set by any task, and waited for by one task at a time."""

    __slots__ = ("_loop", "_set", "_waiter")

    def __init__(self) -> None:
        self._set = False
        self._waiter: asyncio.Future[None] | None = None
        # Asking for the running loop is a system call (`getpid`) until Python 3.12.
        self._loop: asyncio.AbstractEventLoop | None = None

    def set(self) -> None:
        """Wake the task that waits, or the next one to wait before it is cleared."""
        self._set = True
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)

    def clear(self) -> None:
        """Let the next task that waits wait until it is set anew."""
        self._set = False

    def is_set(self) -> bool:
        """Return whether a task that waits now would go on at once."""
        return self._set

    def wait(self) -> asyncio.Future[None]:
        """Return a future that is done when it is set; a coroutine's frame would cost memory."""
        if self._loop is None:
            self._loop = asyncio.get_running_loop()
        self._waiter = self._loop.create_future()
        if self._set:
            self._waiter.set_result(None)
        return self._waiter
