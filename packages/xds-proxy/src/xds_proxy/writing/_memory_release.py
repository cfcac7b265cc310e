"""Memory that large messages needed, given back to the system when no more of them come.

A message of 100 MiB is held several times over while it passes: by gRPC in both directions, and by
Python between them. The C library keeps most of that for later, and the frame that passed it may
lie in a cycle of references, which an idle program does not collect for hours.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable

from mesh_lifecycle import Clock, release_unused_memory

log = logging.getLogger("xds_proxy")

LARGE_BYTES = 1024 * 1024
"""Messages of less than this leave little behind."""


class MemoryRelease:
    """Releases memory once no large message has passed for `quiet_s`; None: never."""

    def __init__(
        self,
        *,
        quiet_s: float | None,
        clock: Clock,
        release: Callable[[], Awaitable[bool]] = release_unused_memory,
    ) -> None:
        self._quiet_s = quiet_s
        self._clock = clock
        self._release = release
        self._passed_at = 0.0
        self._due = asyncio.Event()

    def on_message(self, size: int) -> None:
        """A message of so many bytes passes."""
        if size >= LARGE_BYTES and self._quiet_s is not None:
            self._passed_at = self._clock.monotonic()
            self._due.set()

    async def run(self) -> None:
        """Wait until it is quiet and give memory back, for ever."""
        while True:
            await self._due.wait()
            left_s = self._passed_at + (self._quiet_s or 0.0) - self._clock.monotonic()
            if left_s > 0:
                await self._clock.sleep(left_s)
                continue
            self._due.clear()
            if await self._release():
                log.debug("memory of large messages given back")
