"""A way to the certificate authority that can be closed, or slow: what agents are told it is.

It passes bytes on and reads none of them; TLS is between the agents and the authority.
"""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from enum import StrEnum

_CHUNK = 1 << 16
_SLOW_S = 1.5


class Way(StrEnum):
    """What becomes of connections to the authority."""

    OPEN = "open"
    CLOSED = "closed"
    SLOW = "slow"


class AuthorityWay:
    """Passes connections on to the authority. address: where agents connect to."""

    def __init__(self, host: str, to: tuple[str, int]) -> None:
        self.way = Way.OPEN
        self.address = host
        self._to = to
        self._open: set[asyncio.StreamWriter] = set()

    def close_all(self) -> None:
        """Cut every connection there is."""
        for each in self._open:
            each.transport.abort()

    async def take(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Pass one connection on until either side ends it."""
        if self.way is Way.CLOSED:
            writer.transport.abort()
            return
        try:
            from_authority, to_authority = await asyncio.open_connection(*self._to)
        except OSError:
            writer.transport.abort()
            return
        both = {writer, to_authority}
        self._open |= both
        try:
            ways = [
                asyncio.create_task(self._pass_on(reader, to_authority), name="to the authority"),
                asyncio.create_task(self._pass_on(from_authority, writer), name="to the agent"),
            ]
            await asyncio.wait(ways, return_when=asyncio.FIRST_COMPLETED)
            for each in ways:
                each.cancel()
            await asyncio.wait(ways)
        finally:
            self._open -= both
            for end in both:
                end.transport.abort()

    async def _pass_on(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(OSError):
            while data := await reader.read(_CHUNK):
                if self.way is Way.SLOW:
                    await asyncio.sleep(_SLOW_S)
                writer.write(data)
                await writer.drain()


@asynccontextmanager
async def authority_way(host: str, to: tuple[str, int]) -> AsyncIterator[AuthorityWay]:
    """Pass connections on for as long as the block runs."""
    way = AuthorityWay(host, to)
    async with await asyncio.start_server(way.take, host, 0) as server:
        way.address = f"{host}:{server.sockets[0].getsockname()[1]}"
        try:
            yield way
        finally:
            server.close()
            way.close_all()
