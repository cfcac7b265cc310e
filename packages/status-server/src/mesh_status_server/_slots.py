"""How many of a kind may be under way at once, of one peer and in all."""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from mesh_status_server._errors import TooManyError


class Slots:
    """A number of slots; one peer may have some of them, so that others always find one."""

    def __init__(self, total: int, *, each_peer: int) -> None:
        self._total = total
        self._each_peer = each_peer
        self._taken = Counter[str]()
        self._waiting: set[asyncio.Future[None]] = set()

    @asynccontextmanager
    async def taken(self, peer: str, *, within_s: float) -> AsyncIterator[None]:
        """Have a slot while the block runs; raises `TooManyError` if none gets free in time."""
        if not self._free_for(peer):
            await self._wait(peer, within_s)
        self._taken[peer] += 1
        try:
            yield
        finally:
            self._taken[peer] -= 1
            self._taken += Counter()  # forgets the peers without any
            for waiting in self._waiting:
                if not waiting.done():
                    waiting.set_result(None)

    def _free_for(self, peer: str) -> bool:
        return self._taken.total() < self._total and self._taken[peer] < self._each_peer

    async def _wait(self, peer: str, within_s: float) -> None:
        try:
            async with asyncio.timeout(within_s):
                while not self._free_for(peer):
                    freed = asyncio.get_running_loop().create_future()
                    self._waiting.add(freed)
                    try:
                        await freed
                    finally:
                        self._waiting.discard(freed)
        except TimeoutError as error:
            held = self._taken[peer]
            raise TooManyError(
                f"{self._taken.total()} of {self._total} are under way, {held} of them for {peer}; "
                f"none ended within {within_s:g} s"
            ) from error
