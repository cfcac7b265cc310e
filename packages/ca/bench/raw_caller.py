"""A caller of one unary gRPC method that costs little itself.

A `grpc.aio` client takes longer over a call than the server does, so that a bench with one would
measure the client. This one speaks just as much HTTP/2 (RFC 9113) as a call takes: it sends frames
prepared beforehand, and of the answer looks at the frames' headers. Like gRPC's client it has the
server keep the request's header fields, and afterwards sends their numbers only (RFC 7541).
"""

import asyncio
from collections.abc import Sequence
from typing import cast

DATA, HEADERS, RST_STREAM, SETTINGS, PING, GOAWAY, WINDOW_UPDATE = 0, 1, 3, 4, 6, 7, 8
END_STREAM, ACK, END_HEADERS = 0x1, 0x1, 0x4
FRAME_HEADER_BYTES = 9
WHOLE_WINDOW = 2**31 - 1
FIRST_WINDOW = 65_535
INITIAL_WINDOW_SIZE = 4  # the setting's number
FIRST_DYNAMIC_INDEX = 62


def frame(kind: int, flags: int, stream: int, body: bytes = b"") -> bytes:
    return b"%b%c%c%b%b" % (
        len(body).to_bytes(3, "big"),
        kind,
        flags,
        stream.to_bytes(4, "big"),
        body,
    )


def integer(value: int, prefix_bits: int, pattern: int) -> bytes:
    """A number as HPACK writes it, after the bits of `pattern`."""
    most = (1 << prefix_bits) - 1
    if value < most:
        return bytes([pattern | value])
    octets = bytearray([pattern | most])
    value -= most
    while value >= 0x80:
        octets.append(value & 0x7F | 0x80)
        value >>= 7
    octets.append(value)
    return bytes(octets)


def to_be_kept(name: str, value: str) -> bytes:
    """A header field that is to be kept by its receiver."""
    texts = (name.encode(), value.encode())
    return b"\x40" + b"".join(integer(len(text), 7, 0) + text for text in texts)


class RawCaller(asyncio.Protocol):
    """Calls a method, one call at a time, on the connection it is the protocol of."""

    def __init__(self, path: str, metadata: Sequence[tuple[str, str]]) -> None:
        fields = (
            (":method", "POST"),
            (":scheme", "https"),
            (":path", path),
            (":authority", "localhost"),
            ("te", "trailers"),
            ("content-type", "application/grpc"),
            *metadata,
        )
        self._fields = b"".join(to_be_kept(*field) for field in fields)
        # The last one kept has the lowest number.
        newest_first = range(len(fields) - 1, -1, -1)
        self._kept = b"".join(integer(FIRST_DYNAMIC_INDEX + i, 7, 0x80) for i in newest_first)
        self._stream = 1
        self._window = FIRST_WINDOW
        self._unread = b""
        self._answered = False
        self._done: asyncio.Future[None] | None = None
        self._transport: asyncio.Transport | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)
        window = INITIAL_WINDOW_SIZE.to_bytes(2, "big") + WHOLE_WINDOW.to_bytes(4, "big")
        more = (WHOLE_WINDOW - FIRST_WINDOW).to_bytes(4, "big")
        self._transport.write(
            b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
            + frame(SETTINGS, 0, 0, window)
            + frame(WINDOW_UPDATE, 0, 0, more)
        )

    async def call(self, request: bytes) -> None:
        """Make a call; RuntimeError if it is refused."""
        assert self._transport is not None
        self._done = asyncio.get_running_loop().create_future()
        self._answered = False
        message = b"\0" + len(request).to_bytes(4, "big") + request
        self._window -= len(message)
        assert self._window >= 0, "the server gives no window"
        self._transport.write(
            frame(HEADERS, END_HEADERS, self._stream, self._fields)
            + frame(DATA, END_STREAM, self._stream, message)
        )
        self._fields = self._kept
        await self._done
        self._stream += 2

    def data_received(self, data: bytes) -> None:
        unread = self._unread + data
        start = 0
        while len(unread) >= (body := start + FRAME_HEADER_BYTES):
            end = body + int.from_bytes(unread[start : start + 3], "big")
            if len(unread) < end:
                break
            stream = int.from_bytes(unread[start + 5 : body], "big")
            self._take(unread[start + 3], unread[start + 4], stream, unread[body:end])
            start = end
        self._unread = unread[start:]

    def connection_lost(self, exc: Exception | None) -> None:
        self._fail(f"connection lost: {exc}")

    def _take(self, kind: int, flags: int, stream: int, body: bytes) -> None:
        assert self._transport is not None
        if kind == DATA:
            self._answered = True
        elif kind == HEADERS and flags & END_STREAM:
            if not self._answered:  # a refusal is a header block alone
                self._fail("call refused")
            elif self._done is not None and not self._done.done():
                self._done.set_result(None)
        elif kind in {SETTINGS, PING} and not flags & ACK:
            self._transport.write(frame(kind, ACK, 0, body if kind == PING else b""))
        elif kind == WINDOW_UPDATE and stream == 0:  # a stream's own is never used up
            self._window += int.from_bytes(body, "big")
        elif kind in {RST_STREAM, GOAWAY}:
            self._fail(f"frame of kind {kind}: {body!r}")

    def _fail(self, reason: str) -> None:
        if self._done is not None and not self._done.done():
            self._done.set_exception(RuntimeError(reason))
