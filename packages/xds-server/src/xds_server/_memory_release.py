"""Memory given back to the system: what pushes needed, and what clients that have gone had.

A push to many needs megabytes for as long as it is on its way; glibc keeps them, in pieces.
What the allocators keep after a peak of clients would be in the process's size for good. Freed
objects go back when nothing else lives in their megabyte (Python's own allocator) or page (glibc,
by `malloc_trim`), and a peak leaves a few long-lived ones behind everywhere: free lists of the
event loop, which are renewed, and 80 bytes for every connection at once in gRPC's poller, for which
nothing can be done. So it depends on the granularity, which only who starts the process can choose;
see the README for figures.
"""

from __future__ import annotations

import asyncio
import gc
import logging
import sys
from collections.abc import Awaitable, Callable

from mesh_lifecycle import Clock
from xds_server._free_lists import renew_free_lists

log = logging.getLogger(__name__)

_WORTH_IT = 100
"""Clients that have to be gone, or to be there: below that the allocator keeps a few megabytes."""
_SETTLES_S = 0.1
"""gRPC's own threads free what the calls had that were collected."""


def trim() -> bool:
    """Give back what glibc has free, which takes it a millisecond; whether there was anything."""
    import ctypes  # here, for most processes never need it

    try:
        return bool(ctypes.CDLL(None).malloc_trim(0))
    except (AttributeError, OSError):
        return False


async def release_unused() -> bool:
    """Empty Python's free lists and glibc's; whether there was anything. Only glibc knows how.

    Two steps of some 10 ms each, during which nothing else happens.
    """
    _forget_looked_up_names()
    gc.collect()  # gRPC leaves a small cycle for every call
    await asyncio.sleep(_SETTLES_S)
    trimmed = trim()
    await renew_free_lists()  # after the first time, so that what is new lies among what stays
    return trim() or trimmed


def _forget_looked_up_names() -> None:
    """Each name that C code looks up on an object is a new string, and may be kept for the next
    time, of which there is none: one a connection with TLS, and a page for each.
    """
    if sys.version_info >= (3, 13):
        sys._clear_internal_caches()
    else:
        sys._clear_type_cache()


class MemoryRelease:
    """Gives back when it is quiet for a while: what is free, and more when most clients have gone.

    That is half of them, or more, and some number at least.
    """

    def __init__(
        self,
        *,
        quiet_s: float | None,
        clock: Clock,
        release: Callable[[], Awaitable[bool]] = release_unused,
        trim: Callable[[], bool] = trim,
    ) -> None:
        self._quiet_s = quiet_s
        self._clock = clock
        self._release = release
        self._trim = trim
        self._most = 0
        self._clients = 0
        self._used = False
        self._fallen = False
        self._changed_at = 0.0
        self._due = asyncio.Event()

    def count(self, clients: int) -> None:
        """There are so many clients now."""
        if self._most < _WORTH_IT <= clients and self._quiet_s is not None:
            import ctypes  # noqa: F401  needed later, when it would lie in holes and keep them
        self._used |= clients > self._clients
        self._clients = clients
        self._most = max(self._most, clients)
        self._fallen = self._most - clients >= max(_WORTH_IT, self._most / 2)
        self._changed()

    def pushed(self) -> None:
        """The clients are being pushed to."""
        self._used = True
        self._changed()

    def _changed(self) -> None:
        self._changed_at = self._clock.monotonic()
        worth_it = self._fallen or (self._used and self._clients >= _WORTH_IT)
        if worth_it and self._quiet_s is not None:
            self._due.set()
        else:
            self._due.clear()

    async def run(self) -> None:
        """Wait for it to be quiet, again and again."""
        while True:
            await self._due.wait()
            left_s = self._changed_at + (self._quiet_s or 0.0) - self._clock.monotonic()
            if left_s > 0:
                await self._clock.sleep(left_s)
                continue
            fallen, self._fallen, self._used = self._fallen, False, False
            self._due.clear()
            if not fallen:
                self._trim()
                continue
            gone, self._most = self._most - self._clients, self._clients
            if await self._release():
                log.info("memory given back", extra={"clients": self._clients, "gone": gone})
