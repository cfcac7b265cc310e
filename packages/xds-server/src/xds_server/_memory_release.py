"""Memory given back to the system: that of pushes, and that of clients that have gone.

A push to many clients needs megabytes for as long as it is under way, and glibc keeps them, in
pieces; the memory of clients that have gone is kept likewise. `malloc_trim` gives free pages back.
Python's own allocator gives back only whole megabytes in which nothing lives any more, so how much
is given back depends on `SERVER_ENVIRONMENT`, which only the starter of a process can choose; the
README has figures.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable

from mesh_lifecycle import Clock, release_unused_memory, trim_memory

log = logging.getLogger(__name__)

_FEWEST_CLIENTS = 100
"""That have to be connected, or to have gone: with fewer the allocator keeps a few megabytes."""


class MemoryRelease:
    """Gives memory back when it is quiet for a while: by `trim`, or by `release` if many have gone.

    Many are half of the most clients that there were, and at least 100.
    """

    def __init__(
        self,
        *,
        quiet_s: float | None,
        clock: Clock,
        release: Callable[[], Awaitable[bool]] = release_unused_memory,
        trim: Callable[[], bool] = trim_memory,
    ) -> None:
        self._quiet_s = quiet_s
        self._clock = clock
        self._release = release
        self._trim = trim
        self._most = 0
        self._clients = 0
        self._used = False
        self._many_gone = False
        self._changed_at = 0.0
        self._due = asyncio.Event()

    def count(self, clients: int) -> None:
        """Take note of the number of clients that are connected now."""
        if self._most < _FEWEST_CLIENTS <= clients and self._quiet_s is not None:
            import ctypes  # noqa: F401  loaded later it would lie in freed pages and keep them
        self._used |= clients > self._clients
        self._clients = clients
        self._most = max(self._most, clients)
        self._many_gone = self._most - clients >= max(_FEWEST_CLIENTS, self._most / 2)
        self._on_change()

    def on_push(self) -> None:
        """Take note of a push to the clients."""
        self._used = True
        self._on_change()

    def _on_change(self) -> None:
        self._changed_at = self._clock.monotonic()
        worth_it = self._many_gone or (self._used and self._clients >= _FEWEST_CLIENTS)
        if worth_it and self._quiet_s is not None:
            self._due.set()
        else:
            self._due.clear()

    async def run(self) -> None:
        """Wait until it is quiet and give memory back, for ever."""
        while True:
            await self._due.wait()
            left_s = self._changed_at + (self._quiet_s or 0.0) - self._clock.monotonic()
            if left_s > 0:
                await self._clock.sleep(left_s)
                continue
            many_gone, self._many_gone, self._used = self._many_gone, False, False
            self._due.clear()
            if not many_gone:
                self._trim()
                continue
            gone, self._most = self._most - self._clients, self._clients
            if await self._release():
                log.info("memory given back", extra={"clients": self._clients, "gone": gone})
