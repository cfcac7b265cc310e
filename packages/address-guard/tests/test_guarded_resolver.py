"""Requests by aiohttp go to addresses that were judged, and a name is looked up once."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager

import aiohttp
import pytest

from mesh_address_guard import THIS_MACHINE, AddressBlocked, AddressGuard, GuardedResolver


async def _answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    await reader.readuntil(b"\r\n\r\n")
    writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nConnection: close\r\n\r\nok")
    await writer.drain()
    writer.close()
    await writer.wait_closed()


@asynccontextmanager
async def serving() -> AsyncIterator[int]:
    server = await asyncio.start_server(_answer, "127.0.0.1", 0)
    async with server:
        yield server.sockets[0].getsockname()[1]


class Names:
    """Gives one answer after the other, as the owner of a name may."""

    def __init__(self, *answers: Sequence[str]) -> None:
        self.answers = list(answers)
        self.asked: list[str] = []

    async def __call__(self, host: str) -> Sequence[str]:
        self.asked.append(host)
        return self.answers.pop(0)


async def fetched(resolver: GuardedResolver, url: str) -> str:
    await resolver.admit(url)
    connector = aiohttp.TCPConnector(resolver=resolver)
    async with aiohttp.ClientSession(connector=connector) as session, session.get(url) as response:
        return await response.text()


async def test_the_address_that_was_judged_is_connected_to() -> None:
    names = Names(["169.254.169.254", "127.0.0.1"], ["169.254.169.254"])
    async with serving() as port:
        url = f"http://rebinding.example:{port}/"
        assert await fetched(GuardedResolver(AddressGuard(), names), url) == "ok"
    assert names.asked == ["rebinding.example"]


@pytest.mark.parametrize("host", ["127.0.0.1", "[::1]", "LOCALHOST", "127.1"])
async def test_a_host_that_is_blocked_is_not_asked_for(host: str) -> None:
    resolver = GuardedResolver(AddressGuard(blocked=THIS_MACHINE), Names(["127.0.0.1"]))
    with pytest.raises(AddressBlocked):
        await fetched(resolver, f"http://{host}:1/")


async def test_a_name_that_was_not_admitted_is_not_connected_to() -> None:
    resolver = GuardedResolver(AddressGuard(), Names(["127.0.0.1"]))
    await resolver.admit("http://one.example/")
    connector = aiohttp.TCPConnector(resolver=resolver)
    async with aiohttp.ClientSession(connector=connector) as session:
        with pytest.raises(aiohttp.ClientConnectorError, match="was not admitted"):
            await session.get("http://other.example/")
