"""Looks up the host names of network gateways, for clusters that take nothing but IP addresses.

The system's resolver does not tell how long an answer holds, so each name is asked for anew every
minute. An answer is kept as long as there is no other.
"""

import asyncio
import logging
import socket
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping
from contextlib import asynccontextmanager
from dataclasses import replace

from mesh_lifecycle import Clock, SystemClock, in_background
from mesh_model import Facts, MeshModel

log = logging.getLogger(__name__)

INTERVAL_S = 60.0
_PATIENCE_S = 10.0

Resolve = Callable[[str], Awaitable[Iterable[str]]]


async def look_up(name: str) -> Iterable[str]:
    """Return the addresses of a name; raises OSError."""
    loop = asyncio.get_running_loop()
    async with asyncio.timeout(_PATIENCE_S):
        found = await loop.getaddrinfo(name, None, type=socket.SOCK_STREAM)
    return [str(address[0]) for *_, address in found]


class GatewayNames:
    """The addresses of the names that are wanted, as far as they are known."""

    def __init__(
        self,
        *,
        resolve: Resolve = look_up,
        clock: Clock = SystemClock(),  # noqa: B008  stateless
    ) -> None:
        self._resolve = resolve
        self._clock = clock
        self._wanted: frozenset[str] = frozenset()
        self._more = asyncio.Event()
        self.addresses: Mapping[str, tuple[str, ...]] = {}
        """By name, sorted; a name without an answer is not there."""

    def want(self, names: frozenset[str]) -> None:
        """Look these names up from now on, and no others."""
        if names - self._wanted:
            self._more.set()
        self._wanted = names

    def add_to(self, facts: Facts) -> Facts:
        """Return facts with the addresses."""
        return replace(facts, addresses=self.addresses)

    def on_model(self, model: MeshModel) -> None:
        """Look up the names of the gateways of a mesh."""
        self.want(model.networks.names)

    @asynccontextmanager
    async def following(self, on_change: Callable[[], None]) -> AsyncIterator[None]:
        """Look names up while the block runs; on_change: called when an address is another."""
        async with in_background(self._run(on_change), name="names of network gateways"):
            yield

    async def _run(self, on_change: Callable[[], None]) -> None:
        while True:
            if not self._wanted:
                await self._more.wait()
            self._more.clear()
            if await self._look_up_all():
                on_change()
            async with in_background(self._wake_later(), name="next look at gateways"):
                await self._more.wait()

    async def _wake_later(self) -> None:
        await self._clock.sleep(INTERVAL_S)
        self._more.set()
        await asyncio.get_running_loop().create_future()  # it wakes its owner once

    async def _look_up_all(self) -> bool:
        names = sorted(self._wanted)
        answers = await asyncio.gather(*map(self._answer, names))
        found = {name: answer for name, answer in zip(names, answers, strict=True) if answer}
        if found == self.addresses:
            return False
        self.addresses = found
        return True

    async def _answer(self, name: str) -> tuple[str, ...]:
        try:
            return tuple(sorted(set(await self._resolve(name))))
        except (OSError, TimeoutError) as error:
            known = self.addresses.get(name, ())
            log.warning(
                "the name of a network gateway can't be looked up",
                extra={"host": name, "reason": str(error), "kept": known},
            )
            return known
