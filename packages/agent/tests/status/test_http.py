import asyncio
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from http import HTTPStatus

import pytest

from mesh_agent._errors import ListenError
from mesh_agent.status._http import Request, Response, Send, http_server
from mesh_listening import HTTP_LIMITS
from mesh_testkit import all_closed, idle_connections, until


async def pieces(send: Send) -> None:
    for piece in (b"one", b"two"):
        await send(piece)
    raise RuntimeError("secret detail")


async def echo(request: Request) -> Response:
    if request.path == "/broken":
        raise RuntimeError("secret detail")
    if request.path == "/pieces":
        return Response(write=pieces)
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


async def test_a_thousand_idle_connections_keep_no_other_caller_out_and_are_told_of_once(
    caplog: pytest.LogCaptureFixture,
) -> None:
    limits = HTTP_LIMITS._replace(first_byte_s=600)
    async with http_server("127.0.0.1", 0, echo, limits=limits) as (port, _):
        with idle_connections(("127.0.0.1", port), 1000):
            assert await answered(port) == 200
    assert reasons(caplog, "refusing connections") == ["too many of one peer"]
    assert reasons(caplog, "no longer refusing connections") == ["too many of one peer"]


async def test_connections_that_say_nothing_are_ended_and_told_of_once(
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
    async def large(request: Request) -> Response:
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
