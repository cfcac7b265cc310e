"""A gRPC server that passes ADS streams on to another one and records every message's bytes."""

from __future__ import annotations

import asyncio
import lzma
import struct
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

import grpc
import grpc.aio

from xds_proxy.protocol._dialect import DIALECTS, SERVICE, Dialect

_OPTIONS = [
    ("grpc.max_receive_message_length", -1),
    ("grpc.max_send_message_length", -1),
    ("grpc.so_reuseport", 0),
    ("grpc.use_local_subchannel_pool", 1),
]
_RECORD = struct.Struct("!?I")


class Message(NamedTuple):
    """A message of a recorded stream."""

    is_request: bool
    raw: bytes


@dataclass(slots=True)
class RecordedStream:
    """The messages of one stream in the order in which they passed."""

    dialect: Dialect
    messages: list[Message] = field(default_factory=list)

    @property
    def requests(self) -> list[bytes]:
        return [message.raw for message in self.messages if message.is_request]

    @property
    def responses(self) -> list[bytes]:
        return [message.raw for message in self.messages if not message.is_request]


class Recorder:
    """What has passed; created by `recording`."""

    def __init__(self) -> None:
        self.address = ""
        self.streams: list[RecordedStream] = []


@asynccontextmanager
async def recording(listen: str, target: str) -> AsyncIterator[Recorder]:
    """Pass the streams of clients of `listen` on to `target`; both are names as gRPC has them."""
    recorder = Recorder()
    server = grpc.aio.server(options=_OPTIONS)
    async with grpc.aio.insecure_channel(target, options=_OPTIONS) as channel:
        handlers = {
            dialect.method: grpc.stream_stream_rpc_method_handler(
                _Passing(recorder, channel, dialect).serve
            )
            for dialect in DIALECTS
        }
        server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler(SERVICE, handlers),))
        port = server.add_insecure_port(listen)
        recorder.address = listen if port == 1 else f"{listen.rpartition(':')[0]}:{port}"
        await server.start()
        try:
            yield recorder
        finally:
            await server.stop(None)


class _Passing:
    def __init__(self, recorder: Recorder, channel: grpc.aio.Channel, dialect: Dialect) -> None:
        self._recorder = recorder
        self._channel = channel
        self._dialect = dialect

    async def serve(self, _: object, below: grpc.aio.ServicerContext[bytes, bytes]) -> None:
        stream = RecordedStream(self._dialect)
        self._recorder.streams.append(stream)
        above: grpc.aio.StreamStreamCall[bytes, bytes] = self._channel.stream_stream(
            self._dialect.path, None, None
        )(None)

        async def pass_requests() -> None:
            while isinstance(raw := await below.read(), bytes):
                stream.messages.append(Message(True, raw))
                await above.write(raw)

        requests = asyncio.create_task(pass_requests(), name="requests past the recorder")
        try:
            while isinstance(raw := await above.read(), bytes):
                stream.messages.append(Message(False, raw))
                await below.write(raw)
        finally:
            requests.cancel()
            above.cancel()
            await asyncio.wait([requests])


def write_recorded(path: Path, messages: Sequence[Message]) -> None:
    """Write the messages of a stream to a file; the same messages make the same file."""
    records = [_RECORD.pack(each.is_request, len(each.raw)) + each.raw for each in messages]
    path.write_bytes(lzma.compress(b"".join(records)))


def read_recorded(path: Path) -> list[Message]:
    """Read the messages that `write_recorded` wrote."""
    data = memoryview(lzma.decompress(path.read_bytes()))
    messages = []
    while data:
        is_request, size = _RECORD.unpack_from(data)
        messages.append(Message(is_request, bytes(data[_RECORD.size : _RECORD.size + size])))
        data = data[_RECORD.size + size :]
    return messages
