import asyncio
import gzip
import socket
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from http import HTTPStatus

import pytest

from mesh_listening import HTTP_LIMITS
from mesh_status_server import (
    Handler,
    ListenError,
    Reply,
    Request,
    Response,
    Start,
    Streamed,
    TcpAddress,
    http_server,
    passed_on,
)
from mesh_testkit import all_closed, idle_connections, until
from scrape_peers import Peer, Serve, answer


async def pieces(start: Start) -> None:
    send = await start()
    for piece in (b"one", b"two"):
        await send(piece)
    raise RuntimeError("secret detail")


async def echo(request: Request) -> Reply:
    if request.path == "/broken":
        raise RuntimeError("secret detail")
    if request.path == "/pieces":
        return Streamed(write=pieces)
    return Response.text(f"{request.method} {request.path} {request.from_loopback}")


@asynccontextmanager
async def connected() -> AsyncIterator[tuple[asyncio.StreamReader, asyncio.StreamWriter]]:
    async with http_server("127.0.0.1", 0, echo) as (port, _):
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        try:
            yield reader, writer
        finally:
            writer.close()
            await writer.wait_closed()


async def read_response(reader: asyncio.StreamReader) -> tuple[int, bytes]:
    head = await reader.readuntil(b"\r\n\r\n")
    length = next(
        int(line.split(b":")[1])
        for line in head.split(b"\r\n")
        if b"content-length" in line.lower()
    )
    return int(head.split()[1]), await reader.readexactly(length)


async def test_requests_on_one_connection_are_answered_in_turn() -> None:
    async with connected() as (reader, writer):
        writer.write(b"GET /a?x=1 HTTP/1.1\r\nhost: a\r\n\r\n")
        writer.write(b"POST /b HTTP/1.1\r\nhost: a\r\ncontent-length: 3\r\n\r\nabc")
        assert await read_response(reader) == (200, b"GET /a True")
        assert await read_response(reader) == (200, b"POST /b True")


async def test_a_body_that_fails_midway_is_seen_to_be_cut_short(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async with connected() as (reader, writer):
        writer.write(b"GET /pieces HTTP/1.1\r\nhost: a\r\n\r\n")
        body = (await reader.read()).partition(b"\r\n\r\n")[2]
        assert body == b"3\r\none\r\n3\r\ntwo\r\n"
    assert [record.getMessage() for record in caplog.records] == [
        "a response failed midway, its connection is closed"
    ]
    caplog.clear()  # the logged traceback holds on to this test's event loop


async def test_http_1_0_is_answered_and_closed() -> None:
    async with connected() as (reader, writer):
        writer.write(b"GET / HTTP/1.0\r\n\r\n")
        assert b"200" in await reader.read()


async def test_a_failing_handler_costs_one_answer_and_tells_nothing() -> None:
    async with connected() as (reader, writer):
        writer.write(b"GET /broken HTTP/1.1\r\nhost: a\r\n\r\n")
        status, body = await read_response(reader)
        assert (status, b"secret" in body) == (500, False)
        writer.write(b"GET /next HTTP/1.1\r\nhost: a\r\n\r\n")
        assert (await read_response(reader))[0] == 200


@pytest.mark.parametrize(
    ("sent", "status"),
    [
        (b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03 \r\n\r\n", HTTPStatus.BAD_REQUEST),
        (b"GET /\r\n\r\n", HTTPStatus.BAD_REQUEST),
        (b"GET / HTTP/1.1\r\n\r\n", HTTPStatus.BAD_REQUEST),
        (
            b"GET / HTTP/1.1\r\nhost: a\r\nx: " + b"y" * 40_000,
            HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE,
        ),
        (
            b"POST / HTTP/1.1\r\nhost: a\r\ncontent-length: 200000\r\n\r\n" + b"y" * 70_000,
            HTTPStatus.REQUEST_ENTITY_TOO_LARGE,
        ),
    ],
)
async def test_what_is_no_good_request_gets_its_status_and_the_end(
    sent: bytes, status: HTTPStatus
) -> None:
    async with connected() as (reader, writer):
        writer.write(sent)
        assert (await reader.readline()).split()[1] == str(status.value).encode()


async def test_a_client_that_leaves_mid_request_harms_no_other() -> None:
    async with http_server("127.0.0.1", 0, echo) as (port, _):
        _, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(b"GET / HT")
        writer.close()
        await writer.wait_closed()
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(b"GET / HTTP/1.1\r\nhost: a\r\n\r\n")
        assert (await read_response(reader))[0] == 200
        writer.close()
        await writer.wait_closed()


async def test_an_idle_connection_does_not_hold_up_the_stop() -> None:
    async with connected() as (reader, _):
        pass
    assert await reader.read() == b""


async def test_a_port_in_use_is_said_with_the_address() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(ListenError, match=f"can't listen on 127.0.0.1:{port}: .*in use"):
            async with http_server("127.0.0.1", port, echo):
                pass


async def answered(port: int) -> int:
    reader, writer = await asyncio.open_connection("127.0.0.1", port, local_addr=("127.0.0.2", 0))
    writer.write(b"GET / HTTP/1.1\r\nhost: a\r\n\r\n")
    status, _ = await read_response(reader)
    writer.close()
    await writer.wait_closed()
    return status


def reasons(caplog: pytest.LogCaptureFixture, message: str) -> list[str]:
    return [vars(r)["reason"] for r in caplog.records if r.getMessage() == message]


async def test_a_thousand_idle_connections_keep_no_other_caller_out_and_are_logged_once(
    caplog: pytest.LogCaptureFixture,
) -> None:
    limits = HTTP_LIMITS._replace(first_byte_s=600)
    async with http_server("127.0.0.1", 0, echo, limits=limits) as (port, _):
        with idle_connections(("127.0.0.1", port), 1000):
            assert await answered(port) == 200
    assert reasons(caplog, "refusing connections") == ["too many of one peer"]
    assert reasons(caplog, "no longer refusing connections") == ["too many of one peer"]


async def test_connections_that_say_nothing_are_ended_and_logged_once(
    caplog: pytest.LogCaptureFixture,
) -> None:
    limits = HTTP_LIMITS._replace(first_byte_s=0.1)
    async with http_server("127.0.0.1", 0, echo, limits=limits) as (number, port):
        with idle_connections(("127.0.0.1", number), 100) as held:
            await all_closed(held)
            assert port.open_connections == 0
    assert reasons(caplog, "refusing connections") == ["said nothing"]
    assert reasons(caplog, "no longer refusing connections") == ["said nothing"]


@pytest.mark.parametrize(
    "said",
    [
        b"GET / HTTP/1.1\r\nhost: a\r\nx: ",
        b"POST / HTTP/1.1\r\nhost: a\r\ncontent-length: 9\r\n\r\nx",
        b"GET / HTTP/1.1\r\nhost: a\r\n\r\nGET / HTT",
    ],
)
async def test_a_request_that_comes_too_slowly_is_ended(
    caplog: pytest.LogCaptureFixture, said: bytes
) -> None:
    limits = HTTP_LIMITS._replace(handshake_s=0.3)
    async with http_server("127.0.0.1", 0, echo, limits=limits) as (port, _):
        with idle_connections(("127.0.0.1", port), 100, said=said) as held:
            assert await answered(port) == 200
            await all_closed(held)
    assert reasons(caplog, "refusing connections") == ["headers took too long"]


async def test_a_hundred_that_never_read_are_ended_and_others_are_answered(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def large(request: Request) -> Reply:
        return Response(body=b"x" * (4_000_000 if request.path == "/large" else 1))

    limits = HTTP_LIMITS._replace(stalled_s=0.3)
    async with http_server("127.0.0.1", 0, large, limits=limits) as (port, _):
        with idle_connections(
            ("127.0.0.1", port), 100, said=b"GET /large HTTP/1.1\r\nhost: a\r\n\r\n" * 4
        ):
            assert await answered(port) == 200
            await until(lambda: reasons(caplog, "refusing connections"), what="a word in the log")
    assert reasons(caplog, "refusing connections") == ["took nothing of what was sent"]


async def test_a_connection_between_requests_ends_when_its_time_is_over() -> None:
    limits = HTTP_LIMITS._replace(idle_s=0.2)
    async with http_server("127.0.0.1", 0, echo, limits=limits) as (port, _):
        with idle_connections(
            ("127.0.0.1", port), 10, said=b"GET / HTTP/1.1\r\nhost: a\r\n\r\n"
        ) as held:
            await all_closed(held)


async def test_a_caller_from_this_machine_is_known_on_a_socket_for_every_address() -> None:
    async with http_server("", 0, echo) as (port, _):
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(b"GET / HTTP/1.1\r\nhost: a\r\n\r\n")
        assert await read_response(reader) == (200, b"GET / True")
        writer.close()
        await writer.wait_closed()


async def asked(
    request: bytes, handle: Handler = echo, *, until_end: bool = True
) -> tuple[bytes, bytes]:
    """The head and the rest of what comes for a request."""
    async with http_server("127.0.0.1", 0, handle) as (port, _):
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(request)
        head = await reader.readuntil(b"\r\n\r\n")
        rest = await reader.read() if until_end else b""
        writer.close()
        await writer.wait_closed()
        return head.lower(), rest


async def test_head_is_answered_as_get_without_the_body() -> None:
    head, rest = await asked(b"HEAD /a HTTP/1.1\r\nhost: a\r\nconnection: close\r\n\r\n")
    assert head.startswith(b"http/1.1 200")
    assert b"content-length: 12\r\n" in head
    assert rest == b""


async def test_head_of_an_answer_in_pieces_ends_after_the_head() -> None:
    head, rest = await asked(b"HEAD /pieces HTTP/1.1\r\nhost: a\r\nconnection: close\r\n\r\n")
    assert (head.startswith(b"http/1.1 200"), rest) == (True, b"")


async def test_the_body_of_a_request_reaches_the_handler() -> None:
    async def body(request: Request) -> Reply:
        return Response(body=request.body[::-1])

    _, rest = await asked(
        b"POST / HTTP/1.1\r\nhost: a\r\nconnection: close\r\ncontent-length: 3\r\n\r\nabc", body
    )
    assert rest == b"cba"


@pytest.mark.parametrize(
    ("accepts", "compressed"),
    [
        ("gzip", True),
        ("br;q=1, GZIP;q=0.5", True),
        ("*", True),
        ("deflate, *;q=0", False),
        ("gzip;q=0, *", False),
        ("gzip;q=x", False),
        ("identity", False),
        ("", False),
    ],
)
async def test_gzip_is_used_if_the_caller_takes_it(*, accepts: str, compressed: bool) -> None:
    async def write(start: Start) -> None:
        send = await start(headers={"vary": "accept"})
        for _ in range(100):
            await send(b"the same again\n")

    async def many(_: Request) -> Reply:
        return Streamed(write=write, compress=True)

    request = f"GET / HTTP/1.0\r\naccept-encoding: {accepts}\r\n\r\n".encode()
    head, rest = await asked(request, many)
    assert (b"content-encoding: gzip" in head) == compressed
    assert b"vary: accept, accept-encoding" in head
    assert (gzip.decompress(rest) if compressed else rest) == b"the same again\n" * 100


@pytest.mark.parametrize("late", [False, True])
async def test_an_answer_that_never_begins_is_an_internal_error(
    *, late: bool, caplog: pytest.LogCaptureFixture
) -> None:
    async def write(_: Start) -> None:
        if late:
            raise RuntimeError("secret detail")

    async def broken(_: Request) -> Reply:
        return Streamed(write=write)

    head, rest = await asked(b"GET / HTTP/1.0\r\n\r\n", broken)
    assert (head.startswith(b"http/1.1 500"), rest) == (True, b"internal error\n")
    caplog.clear()  # the logged traceback holds on to this test's event loop


async def test_another_servers_answer_is_passed_on_with_status_and_type(serve: Serve) -> None:
    other = Peer(answer(b'{"no": 1}' * 10_000, "application/json", status="404 Not Found"))
    address = TcpAddress("127.0.0.1", await serve(other))

    async def dump(request: Request) -> Reply:
        return passed_on(address, f"/dump?{request.query}", server="envoy")

    head, rest = await asked(b"GET /x?a=1 HTTP/1.0\r\n\r\n", dump)
    assert head.startswith(b"http/1.1 404")
    assert b"content-type: application/json" in head
    assert rest == b'{"no": 1}' * 10_000
    assert other.requests[0].startswith("GET /dump?a=1 HTTP/1.1\r\n")


async def test_another_server_that_is_not_there_is_reported_in_a_sentence(
    free_port: Callable[[], int],
) -> None:
    address = TcpAddress("127.0.0.1", free_port())

    async def dump(_: Request) -> Reply:
        return passed_on(address, "/", server="envoy")

    head, rest = await asked(b"GET / HTTP/1.0\r\n\r\n", dump)
    assert head.startswith(b"http/1.1 502")
    assert rest.startswith(b"envoy gave no answer: no connection: 127.0.0.1:")


async def test_another_servers_answer_that_breaks_off_is_seen_to(serve: Serve) -> None:
    address = TcpAddress("127.0.0.1", await serve(Peer(answer(b"abc")[:-1])))

    async def dump(_: Request) -> Reply:
        return passed_on(address, "/", server="envoy")

    _, rest = await asked(b"GET / HTTP/1.1\r\nhost: a\r\n\r\n", dump)
    assert not rest.endswith(b"0\r\n\r\n")
