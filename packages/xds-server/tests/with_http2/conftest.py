"""An xDS client over HTTP/2 that gives the server as much room to write as it is told to."""

from __future__ import annotations

import asyncio
import struct
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager, suppress

import h2.config
import h2.connection
import h2.events
import h2.settings
import pytest
from envoy.config.core.v3 import base_pb2
from envoy.service.discovery.v3 import discovery_pb2

from xds_server.testing import ADS_SOTW


class Http2Client:
    """One connection; its streams share it."""

    def __init__(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, window: int
    ) -> None:
        self._reader = reader
        self._writer = writer
        configuration = h2.config.H2Configuration(client_side=True, header_encoding="utf-8")
        self._http = h2.connection.H2Connection(configuration)
        self._http.initiate_connection()
        codes = h2.settings.SettingCodes
        self._http.update_settings({codes.INITIAL_WINDOW_SIZE: window})
        self._parts: dict[int, bytes] = {}
        self._messages: dict[int, asyncio.Queue[discovery_pb2.DiscoveryResponse]] = {}
        self.reads = window > 0
        self.answered = asyncio.Event()
        """The server has begun to answer a stream, as far as it may."""
        self.closed = asyncio.Event()

    async def subscribe(self, type_url: str, *, node_id: str) -> int:
        """Open an aggregated stream that asks for all of a type."""
        stream = self._http.get_next_available_stream_id()
        headers = {
            ":method": "POST",
            ":scheme": "http",
            ":path": ADS_SOTW,
            ":authority": "server",
            "content-type": "application/grpc",
            "te": "trailers",
        }
        self._messages[stream] = asyncio.Queue()
        self._parts[stream] = b""
        self._http.send_headers(stream, list(headers.items()))
        request = discovery_pb2.DiscoveryRequest(type_url=type_url, node=base_pb2.Node(id=node_id))
        await self._send(stream, request)
        return stream

    async def ack(self, stream: int, response: discovery_pb2.DiscoveryResponse) -> None:
        request = discovery_pb2.DiscoveryRequest(
            type_url=response.type_url,
            response_nonce=response.nonce,
            version_info=response.version_info,
        )
        await self._send(stream, request)

    async def next(self, stream: int) -> discovery_pb2.DiscoveryResponse:
        """The next response, accepted."""
        response = await self._messages[stream].get()
        await self.ack(stream, response)
        return response

    async def run(self) -> None:
        """Take what the server sends, until it closes the connection."""
        with suppress(ConnectionError):
            self._writer.write(self._http.data_to_send())
            while data := await self._reader.read(65536):
                for event in self._http.receive_data(data):
                    self._take(event)
                self._writer.write(self._http.data_to_send())
        self.closed.set()

    async def _send(self, stream: int, request: discovery_pb2.DiscoveryRequest) -> None:
        data = request.SerializeToString()
        self._http.send_data(stream, b"\0" + struct.pack(">I", len(data)) + data)
        self._writer.write(self._http.data_to_send())
        await self._writer.drain()

    def _take(self, event: h2.events.Event) -> None:
        if isinstance(event, h2.events.ResponseReceived):
            self.answered.set()
        if not isinstance(event, h2.events.DataReceived) or event.stream_id is None:
            return
        stream = event.stream_id
        if self.reads and event.flow_controlled_length:
            self._http.acknowledge_received_data(event.flow_controlled_length, stream)
        received = self._parts[stream] + (event.data or b"")
        while len(received) >= 5 and len(received) >= 5 + (size := int.from_bytes(received[1:5])):
            message = discovery_pb2.DiscoveryResponse.FromString(received[5 : 5 + size])
            self._messages[stream].put_nowait(message)
            received = received[5 + size :]
        self._parts[stream] = received


Connect = Callable[..., AbstractAsyncContextManager[Http2Client]]


@pytest.fixture
def http2() -> Connect:
    """Connect to an address; `window` is how many bytes each stream may be sent ahead."""

    @asynccontextmanager
    async def connect(address: str, *, window: int) -> AsyncIterator[Http2Client]:
        host, _, port = address.rpartition(":")
        reader, writer = await asyncio.open_connection(host, int(port))
        client = Http2Client(reader, writer, window)
        task = asyncio.create_task(client.run(), name="http2 client")
        try:
            yield client
        finally:
            task.cancel()
            await asyncio.wait([task])
            writer.close()
            with suppress(ConnectionError):
                await writer.wait_closed()

    return connect
