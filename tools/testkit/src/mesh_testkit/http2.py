"""A gRPC client over HTTP/2 whose flow control windows the test sets, and a server that lies.

Needs h2, from the extra `http2`. gRPC's own clients cannot but read.
"""

import asyncio
import ssl
import struct
import zlib
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager, suppress
from types import MappingProxyType

import h2.config
import h2.connection
import h2.events
import h2.settings


class Http2Client:
    """One connection; its streams share it. Messages are bytes."""

    def __init__(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, *, window: int
    ) -> None:
        self._reader = reader
        self._writer = writer
        configuration = h2.config.H2Configuration(client_side=True, header_encoding="utf-8")
        self._http = h2.connection.H2Connection(configuration)
        self._http.initiate_connection()
        self._http.update_settings({h2.settings.SettingCodes.INITIAL_WINDOW_SIZE: window})
        self._parts: dict[int, bytes] = {}
        self._messages: dict[int, asyncio.Queue[bytes]] = {}
        self.reads = window > 0
        """Whether the server gets room again for what was read."""
        self.answered = asyncio.Event()
        """The server has begun to answer a stream, as far as it may."""
        self.headers: dict[int, dict[str, str]] = {}
        """How answers began; those that are a status only have it here."""
        self.trailers: dict[int, dict[str, str]] = {}
        """How streams ended, for those that were told."""
        self.closed = asyncio.Event()
        self.sent_bytes = 0
        """What `send_as_let` has sent."""
        self._more_room = asyncio.Event()

    async def open(self, path: str, first: bytes) -> int:
        """Open a stream of a gRPC method with a first message."""
        stream = await self.begin(path)
        await self.send(stream, first)
        return stream

    async def begin(self, path: str, headers: Mapping[str, str] = MappingProxyType({})) -> int:
        """Open a stream of a gRPC method without a message."""
        stream = self._http.get_next_available_stream_id()
        fields = {
            ":method": "POST",
            ":scheme": "http",
            ":path": path,
            ":authority": "server",
            "content-type": "application/grpc",
            "te": "trailers",
            **headers,
        }
        self._messages[stream] = asyncio.Queue()
        self._parts[stream] = b""
        self._http.send_headers(stream, list(fields.items()))
        self._writer.write(self._http.data_to_send())
        return stream

    async def send_as_let(self, stream: int, data: bytes) -> None:
        """Send bytes, prefix of the message and all, as the server gives room for them."""
        rest = memoryview(data)
        while rest and not self.closed.is_set():
            self._more_room.clear()
            room = min(
                self._http.local_flow_control_window(stream), self._http.max_outbound_frame_size
            )
            if room <= 0:
                await self._more_room.wait()
                continue
            self._http.send_data(stream, bytes(rest[:room]))
            self.sent_bytes += len(rest[:room])
            rest = rest[room:]
            self._writer.write(self._http.data_to_send())
            await self._writer.drain()

    async def send(self, stream: int, message: bytes) -> None:
        """Send a message, however much room the server gives."""
        self._http.send_data(stream, b"\0" + struct.pack(">I", len(message)) + message)
        self._writer.write(self._http.data_to_send())
        await self._writer.drain()

    async def finish_sending(self, stream: int) -> None:
        """Half-close a stream."""
        self._http.end_stream(stream)
        self._writer.write(self._http.data_to_send())
        await self._writer.drain()

    async def make_room(self, stream: int, size: int) -> None:
        """Let the server send as many bytes more."""
        self._http.increment_flow_control_window(size, stream)
        self._writer.write(self._http.data_to_send())
        await self._writer.drain()

    async def receive(self, stream: int) -> bytes:
        """The next message."""
        return await self._messages[stream].get()

    async def run(self) -> None:
        """Take what the server sends, until it closes the connection."""
        with suppress(ConnectionError):
            self._writer.write(self._http.data_to_send())
            while data := await self._reader.read(65536):
                for event in self._http.receive_data(data):
                    self._take(event)
                self._writer.write(self._http.data_to_send())
        self.closed.set()
        self._more_room.set()

    def _take(self, event: h2.events.Event) -> None:
        self._more_room.set()
        if isinstance(event, h2.events.ResponseReceived) and event.stream_id is not None:
            self.answered.set()
            headers = event.headers or ()
            self.headers[event.stream_id] = {str(name): str(value) for name, value in headers}
        if isinstance(event, h2.events.TrailersReceived) and event.stream_id is not None:
            trailers = event.headers or ()
            self.trailers[event.stream_id] = {str(name): str(value) for name, value in trailers}
        if not isinstance(event, h2.events.DataReceived) or event.stream_id is None:
            return
        stream = event.stream_id
        if self.reads and event.flow_controlled_length:
            self._http.acknowledge_received_data(event.flow_controlled_length, stream)
        received = self._parts[stream] + (event.data or b"")
        while len(received) >= 5 and len(received) >= 5 + (size := int.from_bytes(received[1:5])):
            self._messages[stream].put_nowait(received[5 : 5 + size])
            received = received[5 + size :]
        self._parts[stream] = received


@asynccontextmanager
async def connected(
    address: str,
    *,
    window: int,
    context: ssl.SSLContext | None = None,
    client: type[Http2Client] = Http2Client,
    source: str | None = None,
) -> AsyncIterator[Http2Client]:
    """Connect to `host:port` or `unix:path`; each stream may be sent `window` bytes ahead.

    context: for TLS; the name is not checked unless the context says so. source: the address of
    this side.
    """
    if address.startswith("unix:"):
        reader, writer = await asyncio.open_unix_connection(address.removeprefix("unix:"))
    else:
        host, _, port = address.rpartition(":")
        reader, writer = await asyncio.open_connection(
            host, int(port), ssl=context, local_addr=None if source is None else (source, 0)
        )
    connection = client(reader, writer, window=window)
    task = asyncio.create_task(connection.run(), name="http2 client")
    try:
        yield connection
    finally:
        task.cancel()
        await asyncio.wait([task])
        writer.close()
        with suppress(ConnectionError, ssl.SSLError):
            await writer.wait_closed()


def gzip_bomb(size: int) -> bytes:
    """Return a gRPC message, prefix and all, of so many bytes unpacked; packed a thousandth."""
    packing = zlib.compressobj(9, zlib.DEFLATED, 31)
    part = bytes(1 << 20)
    packed = b"".join(packing.compress(part[: size - at]) for at in range(0, size, len(part)))
    packed += packing.flush()
    return b"\1" + struct.pack(">I", len(packed)) + packed


class LyingServer:
    """Answers each call with the same bytes. asked: the headers of the calls."""

    def __init__(self, answer: bytes, headers: Mapping[str, str]) -> None:
        self.address = ""
        self.asked: list[dict[str, str]] = []
        self._answer = answer
        self._open: dict[asyncio.StreamWriter, asyncio.Event] = {}
        self._headers = [(":status", "200"), ("content-type", "application/grpc"), *headers.items()]

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Serve one connection."""
        configuration = h2.config.H2Configuration(client_side=False, header_encoding="utf-8")
        http = h2.connection.H2Connection(configuration)
        http.initiate_connection()
        ended = self._open[writer] = asyncio.Event()
        with suppress(ConnectionError):
            writer.write(http.data_to_send())
            while data := await reader.read(65536):
                for event in http.receive_data(data):
                    self._answer_call(http, event)
                writer.write(http.data_to_send())
        writer.close()
        del self._open[writer]
        ended.set()

    async def close(self) -> None:
        """End all connections."""
        for writer, ended in tuple(self._open.items()):
            writer.close()
            await ended.wait()

    def _answer_call(self, http: h2.connection.H2Connection, event: h2.events.Event) -> None:
        if isinstance(event, h2.events.RequestReceived) and event.stream_id is not None:
            headers = event.headers or ()
            self.asked.append({str(name): str(value) for name, value in headers})
            http.send_headers(event.stream_id, self._headers)
            # As much as any client takes at once; the answers of tests are smaller.
            for at in range(0, len(self._answer), 16384):
                http.send_data(event.stream_id, self._answer[at : at + 16384])
            http.send_headers(event.stream_id, [("grpc-status", "0")], end_stream=True)


@asynccontextmanager
async def lying_server(answer: bytes, headers: Mapping[str, str]) -> AsyncIterator[LyingServer]:
    """Serve on a free port of loopback, at `address`."""
    lying = LyingServer(answer, headers)
    server = await asyncio.start_server(lying.serve, "127.0.0.1", 0)
    lying.address = "127.0.0.1:{1}".format(*server.sockets[0].getsockname())
    try:
        yield lying
    finally:
        server.close()
        await lying.close()
