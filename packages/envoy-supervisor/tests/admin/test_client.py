from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from envoy_supervisor import Address, AdminClient, AdminError, UnixAddress


@asynccontextmanager
async def admin(
    *chunks: bytes, then: Callable[[], Awaitable[object]] | None = None
) -> AsyncIterator[Address]:
    """Answer every request with these bytes."""

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            await reader.readuntil(b"\r\n\r\n")
            for chunk in chunks:
                writer.write(chunk)
            await writer.drain()
            if then is not None:
                await then()
        except (ConnectionError, asyncio.IncompleteReadError):
            pass
        finally:
            writer.close()

    server = await asyncio.start_server(answer, "127.0.0.1", 0)
    async with server:
        yield Address(host="127.0.0.1", port=server.sockets[0].getsockname()[1])


OK = b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\n{}"


async def test_no_server_there_is_not_ready_and_an_error(free_port: Callable[[], int]) -> None:
    address = Address(host="127.0.0.1", port=free_port())
    client = AdminClient(address)
    assert not await client.ready()
    with pytest.raises(AdminError) as caught:
        await client.server_info()
    assert str(caught.value) == (
        f"Envoy's admin port {address} does not answer (connection refused)"
    )


async def test_a_socket_that_is_not_there_is_reported_in_words(tmp_path: Path) -> None:
    path = tmp_path / "admin"
    with pytest.raises(AdminError) as caught:
        await AdminClient(UnixAddress(path=path)).server_info()
    assert str(caught.value).endswith("admin does not answer (no such file or directory)")
    assert str(caught.value).startswith("Envoy's admin socket ")


async def test_a_refusal_carries_status_and_text() -> None:
    async with admin(b"HTTP/1.1 503 -\r\ncontent-length: 5\r\n\r\nbusy\n") as address:
        with pytest.raises(AdminError, match=r"POST .*/quitquitquit: status 503: busy"):
            await AdminClient(address).quit()


async def test_an_answer_without_end_is_given_up() -> None:
    head = b"HTTP/1.1 200 OK\r\n\r\n"
    async with admin(head, *[b"x" * 65536] * 40) as address:
        client = AdminClient(address, max_response_bytes=100_000)
        with pytest.raises(AdminError, match="larger than 100000 bytes"):
            await client.stats()


async def test_an_answer_that_never_comes_is_given_up() -> None:
    release = asyncio.Event()
    async with admin(b"HTTP/1.1 200 OK\r\n", then=release.wait) as address:
        with pytest.raises(AdminError, match=r"has not answered GET /stats completely"):
            await AdminClient(address, timeout_s=0.05).stats("^cluster")
        release.set()


async def test_a_request_that_is_cancelled_leaves_no_connection_behind() -> None:
    asked, left = asyncio.Event(), asyncio.Event()

    async def hang(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        asked.set()
        await reader.read()
        left.set()
        writer.close()

    async with await asyncio.start_server(hang, "127.0.0.1", 0) as server:
        address = Address(host="127.0.0.1", port=server.sockets[0].getsockname()[1])
        client = AdminClient(address, timeout_s=3600)
        request = asyncio.create_task(client.stats(), name="request")
        await asked.wait()
        request.cancel()
        with pytest.raises(asyncio.CancelledError):
            await request
        await left.wait()


@pytest.mark.parametrize(
    "answer",
    [
        b"\x00\xff\r\n\r\n",
        b"HTTP/1.1 200 OK\r\ncontent-length: x\r\n\r\n",
        b"",
        b"HTTP/9.9 abc\r\n",
    ],
)
async def test_an_answer_that_is_no_http_is_an_error(answer: bytes) -> None:
    async with admin(answer) as address:
        with pytest.raises(AdminError):
            await AdminClient(address).config_dump()


@pytest.mark.parametrize("body", [b"[]", b"{", b"\xff\xff"])
async def test_json_that_is_no_object_is_an_error(body: bytes) -> None:
    answer = b"HTTP/1.1 200 OK\r\ncontent-length: %d\r\n\r\n%s" % (len(body), body)
    async with admin(answer) as address:
        with pytest.raises(AdminError, match="is not"):
            await AdminClient(address).server_info()


async def test_certificates_are_a_list_even_if_there_are_none() -> None:
    async with admin(OK) as address:
        assert await AdminClient(address).certs() == []
