"""Memory given back to the system when most clients have gone.

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

from ._clock import Clock
from ._free_lists import renew_free_lists

log = logging.getLogger(__name__)

_WORTH_IT = 100
"""Clients that have to be gone: below that the allocator keeps a few megabytes."""
_SETTLES_S = 0.1
"""gRPC's own threads free what the calls had that were collected."""


async def give_back_unused() -> bool:
    """Empty Python's free lists and glibc's; whether there was anything. Only glibc knows how.

    Two steps of some 10 ms each, during which nothing else happens.
    """
    _forget_looked_up_names()
    gc.collect()  # gRPC leaves a small cycle for every call
    await asyncio.sleep(_SETTLES_S)
    trimmed = _trim()
    await renew_free_lists()  # after the first time, so that what is new lies among what stays
    return _trim() or trimmed


def _forget_looked_up_names() -> None:
    """Each name that C code looks up on an object is a new string, and may be kept for the next
    time, of which there is none: one a connection with TLS, and a page for each.
    """
    if sys.version_info >= (3, 13):
        sys._clear_internal_caches()
    else:
        sys._clear_type_cache()


def _trim() -> bool:
    import ctypes  # here, for most processes never need it

    try:
        return bool(ctypes.CDLL(None).malloc_trim(0))
    except (AttributeError, OSError):
        return False


class MemoryKeeper:
    """Gives back once when half of the clients or more have gone and it is quiet for a while."""

    def __init__(
        self,
        *,
        quiet_s: float | None,
        clock: Clock,
        give_back: Callable[[], Awaitable[bool]] = give_back_unused,
    ) -> None:
        self._quiet_s = quiet_s
        self._clock = clock
        self._give_back = give_back
        self._most = 0
        self._clients = 0
        self._changed_at = 0.0
        self._fallen = asyncio.Event()

    def count(self, clients: int) -> None:
        """There are so many clients now."""
        self._clients = clients
        self._most = max(self._most, clients)
        self._changed_at = self._clock.monotonic()
        many = self._most - clients >= max(_WORTH_IT, self._most / 2)
        if many and self._quiet_s is not None:
            self._fallen.set()
        else:
            self._fallen.clear()

    async def run(self) -> None:
        """Wait for the clients to go, again and again."""
        while True:
            await self._fallen.wait()
            left_s = self._changed_at + (self._quiet_s or 0.0) - self._clock.monotonic()
            if left_s > 0:
                await self._clock.sleep(left_s)
                continue
            gone, self._most = self._most - self._clients, self._clients
            self._fallen.clear()
            if await self._give_back():
                log.info("memory given back", extra={"clients": self._clients, "gone": gone})
