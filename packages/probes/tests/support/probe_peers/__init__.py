"""Applications that answer as a test lets them, for servers on real sockets."""

import asyncio
import ssl
from collections.abc import Awaitable
from typing import Protocol

import h2.config
import h2.connection
import h2.events


class Handler(Protocol):
    """Serves one connection."""

    def __call__(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, /
    ) -> Awaitable[None]: ...


class Serve(Protocol):
    """Starts a server and returns its port."""

    async def __call__(
        self, handler: Handler, *, host: str = ..., tls: ssl.SSLContext | None = ...
    ) -> int: ...


class MakeTls(Protocol):
    """Makes a server's context with these protocols to agree on."""

    def __call__(self, *protocols: str) -> ssl.SSLContext: ...


class Application:
    """Answers HTTP/1.1 requests by path, and remembers them."""

    def __init__(self) -> None:
        self.answers: dict[str, tuple[int, dict[str, str], bytes]] = {}
        self.requests: list[str] = []
        self.peers: list[str] = []

    async def __call__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1")
        self.requests.append(head)
        self.peers.append(writer.get_extra_info("peername")[0])
        status, headers, body = self.answers.get(head.split()[1], (404, {}, b"no such page"))
        lines = [f"HTTP/1.1 {status} Whatever", f"Content-Length: {len(body)}"]
        lines += [f"{name}: {value}" for name, value in headers.items()]
        writer.write("\r\n".join([*lines, "", ""]).encode("latin-1") + body)
        await writer.drain()
        await reader.read()

    def header(self, name: str) -> list[str]:
        """Return the values of a header in the latest request."""
        pairs = [line.partition(": ") for line in self.requests[-1].splitlines()[1:]]
        return [value for found, _, value in pairs if found.lower() == name.lower()]


class Http2Application:
    """Answers each HTTP/2 request alike, and remembers the headers of the latest."""

    def __init__(self, status: str = "200", body: bytes = b"fine") -> None:
        self.status = status
        self.body = body
        self.headers: dict[str, str] = {}

    async def __call__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        configuration = h2.config.H2Configuration(client_side=False, header_encoding="utf-8")
        http = h2.connection.H2Connection(configuration)
        http.initiate_connection()
        writer.write(http.data_to_send())
        while data := await reader.read(65536):
            for event in http.receive_data(data):
                if isinstance(event, h2.events.RequestReceived):
                    self.headers = {str(n): str(v) for n, v in event.headers or ()}
                    stream = event.stream_id or 1
                    http.send_headers(stream, [(":status", self.status), ("location", "/b")])
                    http.send_data(stream, self.body[:16384], end_stream=len(self.body) <= 16384)
            writer.write(http.data_to_send())
