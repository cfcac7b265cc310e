import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager

import pytest

from mesh_local import NoAnswer
from mesh_local.observation._http import MAX_BODY_BYTES, fetch

Serve = Callable[[bytes], AbstractAsyncContextManager[int]]


@pytest.fixture
def serve() -> Serve:
    @asynccontextmanager
    async def serving(answer: bytes) -> AsyncIterator[int]:
        async def handle(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            await reader.readuntil(b"\r\n\r\n")
            writer.write(answer)
            writer.close()
            await writer.wait_closed()

        server = await asyncio.start_server(handle, "127.0.0.1", 0)
        async with server:
            yield server.sockets[0].getsockname()[1]

    return serving


async def test_an_answer_is_read_whole(serve: Serve) -> None:
    chunked = b"HTTP/1.1 203 x\r\nTransfer-Encoding: chunked\r\nA: b\r\n\r\n3\r\nabc\r\n0\r\n\r\n"
    async with serve(chunked) as port:
        answer = await fetch("127.0.0.1", port)
    assert (answer.status, answer.body, answer.headers["a"]) == (203, "abc", "b")
    assert answer.elapsed_s >= 0


async def test_a_request_has_the_headers_and_the_body_that_are_given() -> None:
    received = b""

    async def handle(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal received
        received = await reader.readuntil(b"end")
        writer.write(b"HTTP/1.1 200 ok\r\nContent-Length: 0\r\n\r\n")
        writer.close()

    async with await asyncio.start_server(handle, "127.0.0.1", 0) as server:
        port = server.sockets[0].getsockname()[1]
        await fetch(
            "127.0.0.1", port, headers={"Host": "here", "A": "b"}, body=b"the end", method="POST"
        )
    head, _, body = received.partition(b"\r\n\r\n")
    assert {b"host: here", b"a: b", b"content-length: 7"} <= set(head.lower().split(b"\r\n"))
    assert body == b"the end"


async def test_a_header_that_can_t_be_sent_is_reported() -> None:
    async with await asyncio.start_server(lambda _r, w: w.close(), "127.0.0.1", 0) as server:
        port = server.sockets[0].getsockname()[1]
        with pytest.raises(NoAnswer, match="this request can't be sent"):
            await fetch("127.0.0.1", port, headers={"a": "b\r\nc: d"})


@pytest.mark.parametrize(
    "answer",
    [
        b"",
        b"SSH-2.0-x\r\n\r\n",
        b"HTTP/1.1 200 ok\r\nContent-Length: 10\r\n\r\nabc",
        b"HTTP/1.1 200 ok\r\nContent-Length: 9000000\r\n\r\n" + b"x" * (MAX_BODY_BYTES + 1),
    ],
)
async def test_anything_but_a_whole_answer_is_none(serve: Serve, answer: bytes) -> None:
    async with serve(answer) as port:
        with pytest.raises(NoAnswer):
            await fetch("127.0.0.1", port)


async def test_a_refused_connection_says_so(free_port: Callable[[], int]) -> None:
    with pytest.raises(NoAnswer, match=r"(?i)refused|connect"):
        await fetch("127.0.0.1", free_port())


async def test_silence_ends_after_the_timeout() -> None:
    async def handle(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read()
        writer.close()

    server = await asyncio.start_server(handle, "127.0.0.1", 0)
    async with server:
        with pytest.raises(NoAnswer, match=r"no answer within 0.1 s"):
            await fetch("127.0.0.1", server.sockets[0].getsockname()[1], timeout_s=0.1)
