"""Both versions of HTTP in plain words: a client of HTTP/2, and a server that takes either."""

import asyncio
import ssl
from collections.abc import Mapping
from dataclasses import dataclass, field

import h2.config
import h2.connection
import h2.events

from scenarios._answers import Answer

_PREFACE = b"PRI * HTTP/2.0"
_MAX_READ_BYTES = 65536
_ANSWER = b"HTTP/1.1 200 OK\r\ncontent-length: 8\r\nconnection: close\r\n\r\nHTTP/1.1"


async def get_http2(
    address: str,
    port: int,
    authority: str,
    *,
    path: str = "/",
    headers: Mapping[str, str] | None = None,
    tls: ssl.SSLContext | None = None,
) -> Answer:
    """Ask over HTTP/2; tls: over TLS, which offers that version as a browser does."""
    if tls is not None:
        tls.set_alpn_protocols(["h2", "http/1.1"])
    reader, writer = await asyncio.open_connection(
        address, port, ssl=tls, server_hostname=authority.partition(":")[0] if tls else None
    )
    http = h2.connection.H2Connection(h2.config.H2Configuration(header_encoding="utf-8"))
    http.initiate_connection()
    stream = http.get_next_available_stream_id()
    fields = {
        ":method": "GET",
        ":scheme": "https" if tls else "http",
        ":path": path,
        ":authority": authority,
        **(headers or {}),
    }
    http.send_headers(stream, list(fields.items()), end_stream=True)
    answered: dict[str, str] = {}
    body = b""
    try:
        while True:
            writer.write(http.data_to_send())
            data = await reader.read(_MAX_READ_BYTES)
            if not data:
                raise ConnectionError("closed without an answer")
            for event in http.receive_data(data):
                match event:
                    case h2.events.ResponseReceived():
                        answered = {str(name): str(value) for name, value in event.headers or ()}
                    case h2.events.DataReceived():
                        body += event.data or b""
                    case h2.events.StreamEnded():
                        return Answer(int(answered[":status"]), answered, body.decode())
                    case h2.events.StreamReset() | h2.events.ConnectionTerminated():
                        raise ConnectionError(f"ended by {event}")
                    case _:
                        pass
    finally:
        writer.close()


@dataclass
class VersionEcho:
    """An application that takes HTTP/1.1 and HTTP/2, and answers with the version it was asked in.

    Connections are closed after an answer in HTTP/1.1.
    """

    address: str
    port: int
    _server: asyncio.Server | None = None
    _open: set[asyncio.StreamWriter] = field(default_factory=set)

    async def accept(self) -> None:
        """Open the port."""
        self._server = await asyncio.start_server(self._serve, self.address, self.port)

    async def refuse(self) -> None:
        """Close the port and all connections."""
        if self._server is None:
            return
        self._server.close()
        for each in self._open:
            each.transport.abort()
        await self._server.wait_closed()
        self._server = None

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._open.add(writer)
        try:
            first = await reader.readuntil(b"\r\n")
            if first.startswith(_PREFACE):
                await _serve_http2(first, reader, writer)
                return
            await reader.readuntil(b"\r\n\r\n")
            writer.write(
                b"HTTP/1.1 200 OK\r\ncontent-length: 8\r\nconnection: close\r\n\r\nHTTP/1.1"
            )
            await writer.drain()
        except (OSError, asyncio.IncompleteReadError):
            pass
        finally:
            self._open.discard(writer)
            writer.close()


async def _serve_http2(
    first: bytes, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
) -> None:
    http = h2.connection.H2Connection(h2.config.H2Configuration(client_side=False))
    http.initiate_connection()
    data = first
    while data:
        for event in http.receive_data(data):
            if isinstance(event, h2.events.RequestReceived) and event.stream_id is not None:
                http.send_headers(event.stream_id, [(":status", "200")])
                http.send_data(event.stream_id, b"HTTP/2", end_stream=True)
        writer.write(http.data_to_send())
        await writer.drain()
        data = await reader.read(_MAX_READ_BYTES)
