"""Clients that do harm by doing nothing: connections that stay silent, streams that never read."""

import asyncio
import socket
import ssl
import struct
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager, suppress
from pathlib import Path

from envoy.config.core.v3.base_pb2 import Node
from envoy.service.discovery.v3.discovery_pb2 import DiscoveryRequest

from mesh_protos import type_urls

Address = tuple[str, int]
ADS = "/envoy.service.discovery.v3.AggregatedDiscoveryService/StreamAggregatedResources"
_AGAIN_AFTER_S = 0.5


@asynccontextmanager
async def idle_connections(
    addresses: Sequence[Address], count: int, *, source: str
) -> AsyncIterator[None]:
    """Keep `count` connections open to each address that say nothing, all from one other address.

    Those that are closed or refused are opened again.
    """
    async with asyncio.TaskGroup() as group:
        tasks = [
            group.create_task(_idle(address, count, source), name=f"idle at {address}")
            for address in addresses
        ]
        try:
            yield
        finally:
            for task in tasks:
                task.cancel()


async def _idle(address: Address, count: int, source: str) -> None:
    loop = asyncio.get_running_loop()
    held: list[socket.socket] = []
    try:
        while True:
            held = [each for each in held if not _closed(each)]
            while len(held) < count:
                connection = socket.socket()
                connection.setblocking(False)
                connection.bind((source, 0))
                try:
                    async with asyncio.timeout(_AGAIN_AFTER_S):
                        await loop.sock_connect(connection, address)
                except (OSError, TimeoutError):
                    connection.close()
                    break  # no server listens, or it refuses: try again later
                held.append(connection)
            await asyncio.sleep(_AGAIN_AFTER_S)
    finally:
        for each in held:
            each.close()


def _closed(connection: socket.socket) -> bool:
    try:
        ended = not connection.recv(1024)
    except BlockingIOError:
        return False
    except OSError:
        ended = True
    if ended:
        connection.close()
    return ended


@asynccontextmanager
async def stalled_streams(
    address: Address, count: int, *, node_prefix: str, token: Path
) -> AsyncIterator[None]:
    """Keep ADS streams open over TLS, each of which asks for everything and takes none of it.

    HTTP/2's flow control lets a client say that it has no room (RFC 9113 section 5.2): then not a
    byte of an answer can be sent. Streams that are closed are opened again. token: the file of
    that of a workload in the namespace `default`.
    """
    async with asyncio.TaskGroup() as group:
        tasks = [
            group.create_task(
                _stalled(address, f"{node_prefix}-{number}", token), name=f"stalled {number}"
            )
            for number in range(count)
        ]
        try:
            yield
        finally:
            for task in tasks:
                task.cancel()


async def _stalled(address: Address, pod: str, token: Path) -> None:
    context = ssl.create_default_context()
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE  # it sends a token of the test alone
    context.set_alpn_protocols(["h2"])
    while True:
        with suppress(OSError):
            reader, writer = await asyncio.open_connection(*address, ssl=context)
            try:
                writer.write(_stream_without_room(pod, token.read_text()))
                while await reader.read(65536):
                    pass
            finally:
                writer.close()
        await asyncio.sleep(_AGAIN_AFTER_S)


def _stream_without_room(pod: str, token: str) -> bytes:
    node = Node(id=f"sidecar~10.9.9.9~{pod}.default~default.svc.cluster.local", cluster=pod)
    node.metadata.update({"NAMESPACE": "default", "INTERCEPTION_MODE": "NONE"})
    asked = (type_urls.CLUSTER, type_urls.LISTENER)
    requests = b"".join(
        _message(DiscoveryRequest(node=node, type_url=each).SerializeToString()) for each in asked
    )
    fields = (
        (":method", "POST"),
        (":scheme", "http"),
        (":authority", "istiod"),
        (":path", ADS),
        ("content-type", "application/grpc"),
        ("te", "trailers"),
        ("authorization", f"Bearer {token}"),
    )
    block = b"".join(b"\0" + _text(name) + _text(value) for name, value in fields)
    no_room = struct.pack(">HI", 0x4, 0)  # SETTINGS_INITIAL_WINDOW_SIZE = 0
    preface = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
    return (
        preface
        + _frame(0x4, 0, 0, no_room)
        + _frame(0x1, 0x4, 1, block)
        + _frame(0, 0, 1, requests)
    )


def _message(data: bytes) -> bytes:
    return b"\0" + struct.pack(">I", len(data)) + data


def _text(text: str) -> bytes:
    data = text.encode()
    if len(data) < 127:
        return bytes([len(data)]) + data
    rest, length = len(data) - 127, b"\x7f"  # RFC 7541 section 5.1
    while rest >= 128:
        length += bytes([rest % 128 + 128])
        rest //= 128
    return length + bytes([rest]) + data


def _frame(kind: int, flags: int, stream: int, payload: bytes) -> bytes:
    return struct.pack(">I", len(payload))[1:] + struct.pack(">BBI", kind, flags, stream) + payload
