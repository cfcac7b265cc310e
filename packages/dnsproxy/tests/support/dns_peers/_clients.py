"""Clients that send and receive bytes, and read them with dnspython."""

from __future__ import annotations

import asyncio
import contextlib
import socket
from types import TracebackType
from typing import Self

import dns.message

PATIENCE_S = 60.0


async def exchange(
    address: tuple[str, int], packet: bytes, *, family: int = socket.AF_INET
) -> bytes:
    """Send a packet over UDP and return the answer."""
    loop = asyncio.get_running_loop()
    with socket.socket(family, socket.SOCK_DGRAM) as sock:
        sock.setblocking(False)
        sock.connect(address)
        async with asyncio.timeout(PATIENCE_S):
            await loop.sock_sendall(sock, packet)
            return await loop.sock_recv(sock, 65535)


async def ask(
    address: tuple[str, int],
    name: str,
    kind: str = "A",
    *,
    edns: int = -1,
    payload: int = 1232,
    family: int = socket.AF_INET,
) -> dns.message.Message:
    """Ask over UDP; edns -1: without."""
    query = dns.message.make_query(name, kind, use_edns=edns, payload=payload)
    answer = dns.message.from_wire(await exchange(address, query.to_wire(), family=family))
    assert answer.id == query.id
    return answer


class TcpClient:
    """One connection."""

    def __init__(self, address: tuple[str, int]) -> None:
        self._address = address

    async def __aenter__(self) -> Self:
        self.reader, self.writer = await asyncio.open_connection(*self._address)
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.writer.close()
        with contextlib.suppress(OSError):
            await self.writer.wait_closed()

    def send(self, packet: bytes) -> None:
        self.writer.write(len(packet).to_bytes(2, "big") + packet)

    async def receive(self) -> bytes:
        async with asyncio.timeout(PATIENCE_S):
            length = int.from_bytes(await self.reader.readexactly(2), "big")
            return await self.reader.readexactly(length)

    async def wait_closed(self) -> None:
        """Wait for the server to end the connection."""
        async with asyncio.timeout(PATIENCE_S):
            with contextlib.suppress(ConnectionError):
                assert await self.reader.read(1) == b""


async def ask_tcp(
    address: tuple[str, int], name: str, kind: str = "A", *, edns: int = -1
) -> dns.message.Message:
    """Ask over a TCP connection of its own."""
    query = dns.message.make_query(name, kind, use_edns=edns)
    async with TcpClient(address) as client:
        client.send(query.to_wire())
        answer = dns.message.from_wire(await client.receive())
    assert answer.id == query.id
    return answer
