"""A request goes to an address that was judged, and whatever comes back costs little."""

import asyncio
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager, suppress
from pathlib import Path

import pytest

from mesh_address_guard import (
    THIS_MACHINE,
    AddressBlocked,
    AddressGuard,
    BadAnswer,
    ConnectFailed,
    FetchedAnswer,
    FetchFailed,
    NotVerified,
    fetch_bounded,
)
from mesh_testkit import find_free_port
from mesh_testkit.certificates import Authority

MOST = 100_000
Handler = Callable[[bytes, asyncio.StreamWriter], Awaitable[None]]


@asynccontextmanager
async def serving(handle: Handler, tls: ssl.SSLContext | None = None) -> AsyncIterator[int]:
    """Answer requests, of which `handle` is given all that came; yields the port."""
    tasks: set[asyncio.Task[None]] = set()

    async def connected(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        tasks.add(task)
        try:
            with suppress(ConnectionError, asyncio.IncompleteReadError):
                await handle(await reader.readuntil(b"\r\n\r\n"), writer)
        finally:
            writer.transport.abort()

    server = await asyncio.start_server(connected, "127.0.0.1", 0, ssl=tls)
    try:
        yield server.sockets[0].getsockname()[1]
    finally:
        server.close()
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await server.wait_closed()


class Names:
    """Gives one answer after the other, as the owner of a name may."""

    def __init__(self, *answers: Sequence[str]) -> None:
        self.answers = list(answers)
        self.asked: list[str] = []

    async def __call__(self, host: str) -> Sequence[str]:
        self.asked.append(host)
        return self.answers.pop(0)


HERE = ("127.0.0.1",)


async def fetched(
    url: str,
    *addresses: str,
    guard: AddressGuard | None = None,
    tls: ssl.SSLContext | None = None,
    form: bytes | None = None,
) -> FetchedAnswer:
    return await fetch_bounded(
        url,
        guard=guard or AddressGuard(),
        look_up=Names(addresses or HERE),
        max_bytes=MOST,
        tls=tls,
        form=form,
    )


async def _ok(_request: bytes, writer: asyncio.StreamWriter) -> None:
    writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nX-A: b\r\n\r\nok")
    await writer.drain()


async def test_an_answer_is_returned_with_its_status_and_headers() -> None:
    requests: list[bytes] = []

    async def handle(request: bytes, writer: asyncio.StreamWriter) -> None:
        requests.append(request)
        await _ok(request, writer)

    async with serving(handle) as port:
        answer = await fetched(f"http://localhost:{port}/a b?c=d e")
    assert (answer.status, answer.body, answer.headers["x-a"]) == (200, b"ok", "b")
    head = requests[0].decode().split("\r\n")
    assert head[0] == "GET /a%20b?c=d%20e HTTP/1.1"
    assert f"host: localhost:{port}" in map(str.lower, head)


async def test_the_address_that_was_judged_is_connected_to_and_a_name_is_looked_up_once() -> None:
    names = Names(["169.254.169.254", "127.0.0.1"], ["169.254.169.254"])
    async with serving(_ok) as port:
        answer = await fetch_bounded(
            f"http://rebinding.example:{port}/",
            guard=AddressGuard(),
            look_up=names,
            max_bytes=MOST,
        )
    assert (answer.body, names.asked) == (b"ok", ["rebinding.example"])


@pytest.mark.parametrize("host", ["127.0.0.1", "[::1]", "LOCALHOST", "127.1", "\u2460.example"])
async def test_a_host_that_is_blocked_is_not_connected_to(host: str) -> None:
    with pytest.raises(AddressBlocked):
        await fetched(f"http://{host}:1/", guard=AddressGuard(blocked=THIS_MACHINE))


async def test_a_redirect_is_not_followed() -> None:
    async def handle(_request: bytes, writer: asyncio.StreamWriter) -> None:
        writer.write(b"HTTP/1.1 302 F\r\nLocation: http://169.254.169.254/\r\n\r\n")

    async with serving(handle) as port:
        assert (await fetched(f"http://a.example:{port}/")).status == 302


async def test_the_next_address_is_tried_and_none_that_answers_is_reported() -> None:
    async with serving(_ok) as port:
        url = f"http://a.example:{port}/"
        assert (await fetched(url, "127.99.99.99", "127.0.0.1")).body == b"ok"
    with pytest.raises(ConnectFailed, match=r"127\.0\.0\.1 cannot be connected to: connection ref"):
        await fetched(f"http://a.example:{find_free_port()}/")


async def test_a_certificate_of_another_name_or_root_is_refused(tmp_path: Path) -> None:
    authority = Authority()
    issued = authority.issue("a.example")
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    (tmp_path / "server.pem").write_bytes(issued.chain_pem + issued.key_pem)
    context.load_cert_chain(tmp_path / "server.pem")
    async with serving(_ok, context) as port:
        own = ssl.create_default_context(cadata=authority.root_pem.decode())
        assert (await fetched(f"https://a.example:{port}/", tls=own)).body == b"ok"
        with pytest.raises(NotVerified, match="Hostname mismatch"):
            await fetched(f"https://b.example:{port}/", tls=own)
        other = ssl.create_default_context(cadata=Authority().root_pem.decode())
        with pytest.raises(NotVerified, match=r"local issuer|signature failure"):
            await fetched(f"https://a.example:{port}/", tls=other)


async def _forever(writer: asyncio.StreamWriter, first: bytes, again: bytes) -> None:
    writer.write(first)
    while not writer.transport.is_closing():
        writer.write(again)
        await writer.drain()


OK = b"HTTP/1.1 200 OK\r\n"
CHUNKED = OK + b"Transfer-Encoding: chunked\r\n\r\n"
HOSTILE = {
    "informational answers": (b"", b"HTTP/1.1 103 Early Hints\r\nLink: x\r\n\r\n" * 100, "1xx"),
    "headers": (OK, b"X: y\r\n" * 1000, "a head of more than"),
    "one header": (OK + b"X: ", b"y" * 10_000, "a head of more than"),
    "a body": (OK + b"\r\n", bytes(10_000), "more than 100000 bytes"),
    "chunks": (CHUNKED, b"3e8\r\n" + bytes(1000) + b"\r\n", "more than 100000 bytes"),
    "chunks of a byte": (CHUNKED, b"1\r\n \r\n" * 1000, "pieces of less than 64 bytes"),
    "an extension of a chunk": (CHUNKED + b"1;", b"x" * 10_000, "no HTTP|a head of more than"),
    "extensions of chunks": (
        CHUNKED,
        b"64;" + b"x" * 10_000 + b"\r\n" + bytes(100) + b"\r\n",
        "more wrapping than content",
    ),
    "trailers": (CHUNKED + b"0\r\n", b"X: y\r\n" * 1000, "a head of more than"),
}


@pytest.mark.parametrize("what", HOSTILE)
async def test_a_server_that_sends_without_an_end_is_left(what: str) -> None:
    first, again, reason = HOSTILE[what]

    async def handle(_request: bytes, writer: asyncio.StreamWriter) -> None:
        await _forever(writer, first, again)

    async with serving(handle) as port:
        with pytest.raises(BadAnswer, match=reason):
            await fetched(f"http://a.example:{port}/")


WRONG = {
    "no HTTP": (b"\0" * 100 + b"\r\n\r\n", "no HTTP/1.1"),
    "a length that is too much": (OK + b"Content-Length: 999999999\r\n\r\n", "more than 100000"),
    "two lengths": (OK + b"Content-Length: 1\r\nContent-Length: 2\r\n\r\nab", "no HTTP"),
    "a negative length": (OK + b"Content-Length: -1\r\n\r\nab", "no HTTP"),
    "compression": (OK + b"Content-Encoding: gzip\r\nContent-Length: 1\r\n\r\nx", "compressed"),
}


@pytest.mark.parametrize("what", WRONG)
async def test_a_wrong_answer_is_refused(what: str) -> None:
    content, reason = WRONG[what]

    async def handle(_request: bytes, writer: asyncio.StreamWriter) -> None:
        writer.write(content)
        await writer.drain()

    async with serving(handle) as port:
        with pytest.raises(BadAnswer, match=reason):
            await fetched(f"http://a.example:{port}/")


HALVES = [b"", b"HTTP/1.1 20", OK + b"Content-Length: 100\r\n\r\nhalf", CHUNKED + b"3\r\nab"]


@pytest.mark.parametrize("content", HALVES)
async def test_a_server_that_ends_before_its_answer_may_be_asked_again(content: bytes) -> None:
    async def handle(_request: bytes, writer: asyncio.StreamWriter) -> None:
        writer.write(content)
        await writer.drain()
        writer.close()
        await writer.wait_closed()

    async with serving(handle) as port:
        with pytest.raises(ConnectFailed, match=r"ended before the answer|broke"):
            await fetched(f"http://a.example:{port}/")


@pytest.mark.parametrize("url", ["", "a", "ftp://a/", "http://", "http://u:p@a/", "http://a:x/"])
async def test_what_is_no_url_is_reported(url: str) -> None:
    with pytest.raises(FetchFailed, match="no URL"):
        await fetched(url)
