"""One HTTP/1.1 request to Envoy's admin interface, on a connection of its own, and the answer."""

from __future__ import annotations

import asyncio
import contextlib

import h11

from envoy_supervisor._address import Address, UnixAddress
from envoy_supervisor._errors import AdminError

_READ_BYTES = 64 * 1024


async def exchange(
    address: Address | UnixAddress, method: str, target: str, *, max_bytes: int
) -> tuple[int, bytes]:
    """Return status and body. Nothing here ends by itself: the caller bounds the time.

    Raises `AdminError` if the body is larger than `max_bytes`, `OSError` and `h11.ProtocolError`.
    """
    reader, writer = await _connect(address)
    try:
        protocol = h11.Connection(h11.CLIENT)
        writer.write(_request(protocol, method, target))
        status, body = 0, bytearray()
        while True:
            event = protocol.next_event()
            if event is h11.NEED_DATA:
                protocol.receive_data(await reader.read(_READ_BYTES))
            elif isinstance(event, h11.Response):
                status = event.status_code
            elif isinstance(event, h11.Data):
                body += event.data
                if len(body) > max_bytes:
                    raise AdminError(
                        f"{method} {address}{target}: the answer is larger than {max_bytes} bytes"
                    )
            elif isinstance(event, h11.EndOfMessage):
                return status, bytes(body)
            elif isinstance(event, h11.ConnectionClosed):
                raise h11.RemoteProtocolError("the connection was closed without an answer")
    finally:
        # Not waited for: an Envoy that goes on sending would hold up the one who asked.
        writer.transport.abort()
        with contextlib.suppress(OSError):
            await writer.wait_closed()


def _request(protocol: h11.Connection, method: str, target: str) -> bytes:
    headers = [("host", "localhost"), ("connection", "close")]
    if method != "GET":
        headers.append(("content-length", "0"))
    head = protocol.send(h11.Request(method=method, target=target, headers=headers))
    return (head or b"") + (protocol.send(h11.EndOfMessage()) or b"")


async def _connect(
    address: Address | UnixAddress,
) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    match address:
        case Address(host=host, port=port):
            return await asyncio.open_connection(host, port, limit=_READ_BYTES)
        case UnixAddress(path=path):
            return await asyncio.open_unix_connection(path, limit=_READ_BYTES)
