"""Peers that do anything but answer: each check ends, in time, with a reason."""

import asyncio
import resource
import socket
import time
from collections.abc import Awaitable, Callable
from typing import Literal, TypeAlias

import pytest

from mesh_probes import Action, Exec, GrpcHealth, HttpGet, Outcome, Probe, TcpSocket, check
from probe_peers import MakeTls, Serve

Reader: TypeAlias = asyncio.StreamReader
Writer: TypeAlias = asyncio.StreamWriter


async def get(
    port: int, *, timeout_s: float = 10, scheme: Literal["http", "https"] = "http"
) -> Outcome:
    action = HttpGet(port=port, scheme=scheme, http2=scheme == "https")
    outcome = await check(Probe(action=action, timeout_s=timeout_s), host="127.0.0.1")
    assert not outcome.healthy
    assert outcome.status == 500
    return outcome


def sends(data: bytes, *, then: bytes = b"") -> Callable[[Reader, Writer], Awaitable[None]]:
    """Return a peer that sends data, and then more of `then` for ever, or closes."""

    async def handle(reader: Reader, writer: Writer) -> None:
        await reader.read(65536)
        writer.write(data)
        while then:
            writer.write(then)
            await writer.drain()
        await writer.drain()
        writer.close()

    return handle


async def drips(_reader: Reader, writer: Writer) -> None:
    writer.write(b"HTTP/1.1 200 OK\r\n")
    while True:
        writer.write(b"X: y\r\n")
        await asyncio.sleep(0.01)


async def is_silent(reader: Reader, _writer: Writer) -> None:
    await reader.read()


async def answers_half_a_body(reader: Reader, writer: Writer) -> None:
    writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nhalf")
    await reader.read()


async def reads_nothing(_reader: Reader, _writer: Writer) -> None:
    await asyncio.Event().wait()


@pytest.mark.parametrize("peer", [drips, is_silent, answers_half_a_body, reads_nothing])
@pytest.mark.parametrize("scheme", ["http", "https"])
async def test_a_peer_that_takes_its_time_is_left(
    serve: Serve,
    tls: MakeTls,
    peer: Callable[[Reader, Writer], Awaitable[None]],
    scheme: Literal["http", "https"],
) -> None:
    port = await serve(peer, tls=tls("http/1.1") if scheme == "https" else None)
    outcome = await get(port, timeout_s=0.3, scheme=scheme)
    assert outcome.reason == f"GET {scheme}://127.0.0.1:{port}/: no answer within 0.3 s"


async def test_a_handshake_that_is_not_answered_ends(serve: Serve) -> None:
    outcome = await get(await serve(is_silent), timeout_s=0.2, scheme="https")
    assert outcome.reason.endswith("no answer within 0.2 s")


OK = b"HTTP/1.1 200 OK\r\n"
CHUNKED = OK + b"Transfer-Encoding: chunked\r\n\r\n"


@pytest.mark.parametrize(
    ("peer", "reason"),
    [
        (sends(b""), "closed before a response"),
        (sends(OK), "closed before a response"),
        (sends(OK + b"Content-Length: 9\r\n\r\nhalf"), "the response was cut off"),
        (sends(OK + b"Content-Length: -1\r\n\r\n"), "there was no response of HTTP/1.1"),
        (sends(CHUNKED + b"z\r\n"), "the response was cut off"),
        (sends(b"SSH-2.0-OpenSSH_9.6\r\n\r\n"), "there was no response of HTTP/1.1"),
        (sends(b"\x15\x03\x01\x00\x02\x02\x46"), "is the scheme https needed?"),
        (sends(OK, then=b"X: " + b"y" * 10_000 + b"\r\n"), "there was no response of HTTP/1.1"),
        (sends(OK + b"X: ", then=b"y" * 10_000), "there was no response of HTTP/1.1"),
        (sends(b"", then=b"HTTP/1.1 100 Continue\r\n\r\n" * 100), "more than 262144 bytes"),
        (sends(CHUNKED, then=b"1;" + b"e" * 5000 + b"\r\nx\r\n"), "more than 262144 bytes"),
        (sends(b"HTTP/1.1 101 Switching Protocols\r\n\r\n"), "there was no response of HTTP/1.1"),
    ],
    ids=range(12),
)
async def test_what_is_no_response_is_unhealthy(
    serve: Serve, peer: Callable[[Reader, Writer], Awaitable[None]], reason: str
) -> None:
    assert reason in (await get(await serve(peer))).reason


@pytest.mark.parametrize("head", [OK + b"Content-Length: 20000000\r\n\r\n", OK + b"\r\n"])
async def test_twenty_megabytes_of_body_are_not_read(serve: Serve, head: bytes) -> None:
    sent = 0

    async def peer(_reader: Reader, writer: Writer) -> None:
        nonlocal sent
        writer.write(head)
        for _ in range(2000):
            writer.write(b"x" * 10_000)
            await writer.drain()
            sent += 10_000

    probe = Probe(action=HttpGet(port=await serve(peer)), timeout_s=10)
    outcome = await check(probe, host="127.0.0.1")
    assert (outcome.healthy, len(outcome.body)) == (True, 10240)
    await asyncio.sleep(0)
    assert sent < 20_000_000


async def test_plain_http_where_tls_is_expected_is_named(serve: Serve) -> None:
    outcome = await get(await serve(sends(OK + b"\r\n")), scheme="https")
    assert outcome.reason.endswith("the TLS handshake failed: the peer does not speak TLS")


CLOSE_NOTIFY = b"\x15\x03\x03\x00\x02\x01\x00"


@pytest.mark.parametrize("last", [b"", CLOSE_NOTIFY], ids=["no goodbye", "close_notify"])
async def test_a_peer_that_ends_the_handshake_is_named(serve: Serve, last: bytes) -> None:
    outcome = await get(await serve(sends(last)), scheme="https")
    assert outcome.reason.endswith("the TLS handshake failed: the peer closed the connection")


async def test_a_port_without_a_server_is_refused(free_port: Callable[[], int]) -> None:
    port = free_port()
    refused = f"connecting to 127.0.0.1 port {port} failed: connection refused"
    assert (await get(port)).reason == f"GET http://127.0.0.1:{port}/: {refused}"
    outcome = await check(Probe(action=TcpSocket(port=port)), host="127.0.0.1")
    expected = Outcome(healthy=False, status=500, reason=f"TCP 127.0.0.1:{port}: {refused}")
    assert outcome == expected


@pytest.mark.parametrize("host", ["", "a" * 70, "no.such.host.invalid", "..", "fe80::1%none"])
async def test_hosts_that_are_none_are_an_outcome(host: str) -> None:
    outcome = await check(Probe(action=TcpSocket(port=1), timeout_s=5), host=host)
    assert not outcome.healthy
    assert outcome.reason.startswith("TCP ")


async def test_a_tcp_probe_needs_no_more_than_a_connection(serve: Serve) -> None:
    port = await serve(is_silent)
    outcome = await check(
        Probe(action=TcpSocket(port=port)), host="192.0.2.1", sources=("127.0.0.6",)
    )
    assert not outcome.healthy
    assert await check(Probe(action=TcpSocket(port=port)), host="localhost") == Outcome(
        healthy=True, status=200
    )


async def test_a_connection_of_a_port_with_itself_is_no_answer() -> None:
    for port in _ephemeral_ports(40):
        outcome = await check(
            Probe(action=TcpSocket(port=port)), host="127.0.0.1", sources=("127.0.0.1",)
        )
        assert not outcome.healthy


def _ephemeral_ports(count: int) -> list[int]:
    sockets = [socket.create_server(("127.0.0.1", 0)) for _ in range(count)]
    ports = [each.getsockname()[1] for each in sockets]
    for each in sockets:
        each.close()
    return ports


async def test_a_peer_that_never_pauses_leaves_time_to_others(serve: Serve) -> None:
    """A socket that always has data lets no other task run, unless the reader sees to it."""
    longest = 0.0

    async def others() -> None:
        nonlocal longest
        while True:
            before = time.monotonic()
            await asyncio.sleep(0)
            longest = max(longest, time.monotonic() - before)

    beside = asyncio.create_task(others(), name="others")
    await get(await serve(sends(b"", then=b"HTTP/1.1 100 Continue\r\n\r\n" * 100)))
    beside.cancel()
    await asyncio.wait([beside])
    assert longest < 5


@pytest.mark.parametrize("garbage", [b"", b"HTTP/1.1 400 Bad\r\n\r\n", b"\0" * 9, b"\xff" * 500])
async def test_what_is_no_http2_is_unhealthy(serve: Serve, tls: MakeTls, garbage: bytes) -> None:
    assert (await get(await serve(sends(garbage), tls=tls("h2")), scheme="https")).reason
    probe = Probe(action=GrpcHealth(port=await serve(sends(garbage))), timeout_s=5)
    assert not (await check(probe, host="127.0.0.1")).healthy


async def test_a_flood_of_http2_frames_ends(serve: Serve) -> None:
    ping = b"\0\0\x08\x06\0\0\0\0\0" + b"12345678"
    settings = b"\0\0\0\x04\0\0\0\0\0"
    port = await serve(sends(settings, then=ping * 500))
    outcome = await check(Probe(action=GrpcHealth(port=port), timeout_s=10), host="127.0.0.1")
    assert "more than 262144 bytes" in outcome.reason


async def test_a_check_that_is_cancelled_leaves_nothing(serve: Serve) -> None:
    probe = Probe(action=HttpGet(port=await serve(is_silent)), timeout_s=60)
    checking = asyncio.create_task(check(probe, host="127.0.0.1"), name="checking")
    await asyncio.sleep(0.05)
    checking.cancel()
    with pytest.raises(asyncio.CancelledError):
        await checking


@pytest.mark.parametrize(
    "action", [TcpSocket(port=1), HttpGet(port=1), GrpcHealth(port=1), Exec(command=("true",))]
)
async def test_a_program_without_file_descriptors_left_gets_an_outcome(action: Action) -> None:
    limits = resource.getrlimit(resource.RLIMIT_NOFILE)
    await check(Probe(action=action, timeout_s=5), host="127.0.0.1")  # It imports what it needs.
    resource.setrlimit(resource.RLIMIT_NOFILE, (3, limits[1]))
    try:
        outcome = await check(Probe(action=action, timeout_s=5), host="127.0.0.1")
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, limits)
    assert not outcome.healthy
    assert outcome.reason.endswith(": too many open files")


METADATA = [
    "169.254.169.254",
    "2852039166",
    "0xa9fea9fe",
    "[::ffff:169.254.169.254]",
    "fd00:ec2::254",
    "fe80::1%lo",
]


@pytest.mark.parametrize("host", METADATA)
@pytest.mark.parametrize("kind", [HttpGet, TcpSocket, GrpcHealth])
async def test_no_probe_connects_to_a_metadata_service(
    kind: type[HttpGet | TcpSocket | GrpcHealth], host: str
) -> None:
    outcome = await check(Probe(action=kind(port=80, host=host), timeout_s=60), host="127.0.0.1")
    assert not outcome.healthy
    assert "is a blocked address" in outcome.reason
