"""A gRPC client over HTTP/2 whose flow control windows the test sets.

Needs h2, from the extra `http2`. gRPC's own clients cannot but read.
"""

import asyncio
import ssl
import struct
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress

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
        self.trailers: dict[int, dict[str, str]] = {}
        """How streams ended, for those that were told."""
        self.closed = asyncio.Event()

    async def open(self, path: str, first: bytes) -> int:
        """Open a stream of a gRPC method with a first message."""
        stream = self._http.get_next_available_stream_id()
        headers = {
            ":method": "POST",
            ":scheme": "http",
            ":path": path,
            ":authority": "server",
            "content-type": "application/grpc",
            "te": "trailers",
        }
        self._messages[stream] = asyncio.Queue()
        self._parts[stream] = b""
        self._http.send_headers(stream, list(headers.items()))
        await self.send(stream, first)
        return stream

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

    def _take(self, event: h2.events.Event) -> None:
        if isinstance(event, h2.events.ResponseReceived):
            self.answered.set()
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
) -> AsyncIterator[Http2Client]:
    """Connect to `host:port` or `unix:path`; each stream may be sent `window` bytes ahead.

    context: for TLS; the name is not checked unless the context says so.
    """
    if address.startswith("unix:"):
        reader, writer = await asyncio.open_unix_connection(address.removeprefix("unix:"))
    else:
        host, _, port = address.rpartition(":")
        reader, writer = await asyncio.open_connection(host, int(port), ssl=context)
    made = client(reader, writer, window=window)
    task = asyncio.create_task(made.run(), name="http2 client")
    try:
        yield made
    finally:
        task.cancel()
        await asyncio.wait([task])
        writer.close()
        with suppress(ConnectionError, ssl.SSLError):
            await writer.wait_closed()
