"""Queries that come to the hub, and servers of this machine that answer them or not."""

import asyncio
import socket
import struct
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import cast

import pytest

from mesh_dnsproxy import Upstream
from mesh_lifecycle import in_background
from mesh_local.capture import _forwarder
from mesh_local.capture._forwarder import forward, read_servers

QUERY, ANSWER = b"\x12\x34 a question", b"\x12\x34 the answer"


class Server(asyncio.DatagramProtocol):
    """Answers queries over UDP: first with another id, if it is a bad one."""

    def __init__(self, answers: tuple[bytes, ...]) -> None:
        self._answers = answers
        self.asked: list[bytes] = []

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.DatagramTransport, transport)

    def datagram_received(self, data: bytes, addr: tuple[str, int]) -> None:
        self.asked.append(data)
        for each in self._answers:
            self._transport.sendto(each, addr)


@asynccontextmanager
async def server(*answers: bytes) -> AsyncIterator[tuple[Server, Upstream]]:
    loop = asyncio.get_running_loop()
    transport, protocol = await loop.create_datagram_endpoint(
        lambda: Server(answers), local_addr=("127.0.0.1", 0)
    )
    try:
        yield protocol, Upstream(*transport.get_extra_info("sockname"))
    finally:
        transport.close()


@asynccontextmanager
async def hub(
    monkeypatch: pytest.MonkeyPatch, *servers: Upstream
) -> AsyncIterator[tuple[str, int]]:
    """Forward what comes to a port, which is returned, to these servers."""
    monkeypatch.setattr(_forwarder, "read_servers", lambda: servers)
    monkeypatch.setattr(_forwarder, "_ANSWERED_WITHIN_S", 0.2)
    with (
        socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as datagrams,
        socket.socket(socket.AF_INET, socket.SOCK_STREAM) as connections,
    ):
        connections.bind(("127.0.0.1", 0))
        connections.listen()
        datagrams.bind(connections.getsockname())
        async with in_background(forward(datagrams, connections), name="forwarder"):
            yield connections.getsockname()


async def ask(address: tuple[str, int]) -> bytes:
    loop = asyncio.get_running_loop()
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as asking:
        asking.setblocking(False)
        await loop.sock_connect(asking, address)
        await loop.sock_sendall(asking, QUERY)
        return await asyncio.wait_for(loop.sock_recv(asking, 1024), 10)


async def test_a_query_is_asked_of_the_machine_s_server(monkeypatch: pytest.MonkeyPatch) -> None:
    async with server(ANSWER) as (asked, place), hub(monkeypatch, place) as address:
        assert await ask(address) == ANSWER
        assert asked.asked == [QUERY]


async def test_an_answer_to_another_query_is_passed_over(monkeypatch: pytest.MonkeyPatch) -> None:
    async with server(b"\xff\xff forged", ANSWER) as (_, place), hub(monkeypatch, place) as address:
        assert await ask(address) == ANSWER


async def test_the_next_server_is_asked_when_one_is_silent(monkeypatch: pytest.MonkeyPatch) -> None:
    async with server() as (silent, first), server(ANSWER) as (_, second):
        async with hub(monkeypatch, first, second) as address:
            assert await ask(address) == ANSWER
            assert silent.asked == [QUERY]


async def test_the_next_server_is_asked_when_one_is_away(monkeypatch: pytest.MonkeyPatch) -> None:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as unused:
        unused.bind(("127.0.0.1", 0))
        away = Upstream(*unused.getsockname())
    async with server(ANSWER) as (_, place), hub(monkeypatch, away, place) as address:
        assert await ask(address) == ANSWER


async def test_queries_over_tcp_are_passed_on_both_ways(monkeypatch: pytest.MonkeyPatch) -> None:
    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        (length,) = struct.unpack("!H", await reader.readexactly(2))
        assert await reader.readexactly(length) == QUERY
        writer.write(struct.pack("!H", len(ANSWER)) + ANSWER)
        writer.close()

    listening = await asyncio.start_server(answer, "127.0.0.1", 0)
    async with listening:
        place = Upstream(*listening.sockets[0].getsockname())
        async with hub(monkeypatch, place) as address:
            reader, writer = await asyncio.open_connection(*address)
            writer.write(struct.pack("!H", len(QUERY)) + QUERY)
            assert (
                await asyncio.wait_for(reader.read(), 10) == b"\0" + bytes([len(ANSWER)]) + ANSWER
            )
            writer.close()
            await writer.wait_closed()


def test_without_a_server_the_machine_s_own_is_asked(tmp_path: Path) -> None:
    file = tmp_path / "resolv.conf"
    assert read_servers(file) == (Upstream("127.0.0.1"),)
    file.write_text("search example.org\n")
    assert read_servers(file) == (Upstream("127.0.0.1"),)
    file.write_text("nameserver 127.0.0.53\nnameserver ::1\n")
    assert read_servers(file) == (Upstream("127.0.0.53"), Upstream("::1"))
