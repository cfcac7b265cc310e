"""Callers that ask for much and take nothing of it are ended by the acceptor, not by gRPC.

The servers here send no pings, so that gRPC ends no connection for being silent.
"""

import asyncio
import contextlib
import socket
import ssl
import struct
from collections.abc import AsyncIterator, Callable
from pathlib import Path

import grpc
import pytest

from callers import (
    HTTP2_HELLO,
    BytesContext,
    BytesHandler,
    BytesMethod,
    Pki,
    served_by_grpc,
    unhurried,
    who_am_i,
)
from mesh_listening import (
    GRPC_LIMITS,
    ConnectionLimits,
    Reason,
    format_address,
    listening_at,
    listening_on,
)
from mesh_listening.grpc_server import options

STALLED = 100
PIECE = bytes(100_000)
LIMITS = unhurried(GRPC_LIMITS._replace(port=400, peer=200))


class Endless(BytesHandler):
    """A stream that is sent for as long as there is room."""

    def service(self, handler_call_details: grpc.HandlerCallDetails) -> BytesMethod | None:
        async def much(_request: bytes, _context: BytesContext) -> AsyncIterator[bytes]:
            while True:
                yield PIECE

        if handler_call_details.method != "/test.Much/Send":
            return None
        return grpc.unary_stream_rpc_method_handler(much)


def frame(kind: int, flags: int, stream: int, payload: bytes) -> bytes:
    return struct.pack(">I", len(payload))[1:] + struct.pack(">BBI", kind, flags, stream) + payload


def asking_for_much() -> bytes:
    """HTTP/2 (RFC 9113): all the room that flow control can give, and one call."""
    fields = {
        ":method": "POST",
        ":scheme": "http",
        ":authority": "localhost",
        ":path": "/test.Much/Send",
        "content-type": "application/grpc",
        "te": "trailers",
    }
    block = b"".join(
        b"\0" + bytes([len(name)]) + name.encode() + bytes([len(text)]) + text.encode()
        for name, text in fields.items()
    )
    most = 2**31 - 1
    return (
        HTTP2_HELLO[:24]
        + frame(0x4, 0, 0, struct.pack(">HI", 0x4, most))
        + frame(0x8, 0, 0, struct.pack(">I", most - 65_535))
        + frame(0x1, 0x4, 1, block)
        + frame(0x0, 0x1, 1, bytes(5))
    )


@pytest.mark.parametrize("kind", ["plaintext", "TLS", "unix"])
async def test_a_hundred_clients_that_never_read_are_ended_and_logged_once_and_others_served(
    kind: str, socket_path: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    pki = Pki(tmp_path)
    limits = LIMITS._replace(stalled_s=2.0)
    with contextlib.ExitStack() as stack:
        connect: Callable[[], socket.socket]
        if kind == "unix":
            sockets = [stack.enter_context(listening_at(socket_path))]
            target, connect = f"unix:{socket_path}", lambda: unix_client(socket_path)
        else:
            sockets = stack.enter_context(listening_on("127.0.0.1", 0))
            target, connect = (
                format_address(sockets[0]),
                lambda: small_client(sockets[0].getsockname()),
            )
        context = pki.server_context if kind == "TLS" else None
        channel = pki.channel if kind == "TLS" else None
        async with served_by_grpc(sockets, limits, context=context, handlers=[Endless()]) as served:
            port = served.acceptor.port
            for _ in range(STALLED):
                one = await asyncio.to_thread(encrypted if kind == "TLS" else plain, connect)
                stack.callback(one.close)
            while port.refused.get(Reason.STALLED, 0) < STALLED:
                assert "AcceptedPeer(" in await who_am_i(target, channel=channel)
            await port.wait_gone()
            assert port.refused == {Reason.STALLED: STALLED}
    lines = [vars(r) for r in caplog.records if r.message == "refusing connections"]
    assert [line["reason"] for line in lines] == ["took nothing of what was sent"]


def unix_client(path: Path) -> socket.socket:
    client = socket.socket(socket.AF_UNIX)
    client.connect(str(path))
    return client


def small_client(address: tuple[str, int]) -> socket.socket:
    """With little room of its own, so that it is full soon."""
    client = socket.socket()
    client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    client.connect(address)
    return client


def plain(connect: Callable[[], socket.socket]) -> socket.socket:
    client = connect()
    client.sendall(asking_for_much())
    return client


def encrypted(connect: Callable[[], socket.socket]) -> socket.socket:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    context.set_alpn_protocols(["h2"])
    client = context.wrap_socket(connect())
    client.sendall(asking_for_much())
    return client


def test_the_server_inside_has_no_ping_options() -> None:
    names = [name for name, _ in options(ConnectionLimits(port=1, peer=1))]
    assert not [name for name in names if "keepalive" in name]
