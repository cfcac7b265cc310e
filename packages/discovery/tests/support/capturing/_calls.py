"""Calls from inside of a namespace, over plain sockets: what applications do."""

import asyncio
import json
import socket
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from capturing._namespaces import Namespace

_PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
_DEADLINE_S = 10.0
Read = Callable[[asyncio.StreamReader], Awaitable[bytes]]


@dataclass(frozen=True)
class Reply:
    """The answer to a request."""

    status: int
    headers: Mapping[str, str] = field(default_factory=dict)
    body: bytes = b""

    def json(self) -> Any:
        return json.loads(self.body)


async def dial(
    namespace: Namespace, address: str, port: int
) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    """Connect from a namespace."""
    connection = namespace.socket(socket.AF_INET6 if ":" in address else socket.AF_INET)
    connection.setblocking(False)
    try:
        async with asyncio.timeout(_DEADLINE_S):
            await asyncio.get_running_loop().sock_connect(connection, (address, port))
    except BaseException:
        connection.close()
        raise
    return await asyncio.open_connection(sock=connection)


async def get(
    namespace: Namespace, address: str, port: int, host: str, path: str = "/"
) -> Reply | None:
    """Ask over HTTP/1.1; None if the connection was closed without an answer."""
    text = f"GET {path} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n"
    answer = await exchange(namespace, address, port, text.encode())
    if not answer:
        return None
    head, _, body = answer.partition(b"\r\n\r\n")
    first, *lines = head.decode().split("\r\n")
    headers = {
        name.lower(): value.strip() for name, _, value in (each.partition(":") for each in lines)
    }
    if headers.get("transfer-encoding") == "chunked":
        body = _joined(body)
    return Reply(int(first.split()[1]), headers, body)


async def get_http2(namespace: Namespace, address: str, port: int, host: str) -> int:
    """Ask over HTTP/2 without TLS, and return the status; 0: none came."""
    authority = host.encode()
    header_block = bytes([0x82, 0x86, 0x84, 0x41, len(authority)]) + authority
    sent = _PREFACE + _frame(4, 0, 0, b"") + _frame(1, 5, 1, header_block)
    reader, writer = await dial(namespace, address, port)
    try:
        writer.write(sent)
        async with asyncio.timeout(_DEADLINE_S):
            while True:
                head = await reader.readexactly(9)
                body = await reader.readexactly(int.from_bytes(head[:3], "big"))
                if head[3] == 1:
                    return {0x88: 200, 0x8D: 404}.get(body[0], -1)
    except (asyncio.IncompleteReadError, ConnectionError):
        return 0
    finally:
        writer.close()


def _frame(kind: int, flags: int, stream: int, body: bytes) -> bytes:
    return len(body).to_bytes(3, "big") + bytes([kind, flags]) + stream.to_bytes(4, "big") + body


async def exchange(namespace: Namespace, address: str, port: int, data: bytes = b"") -> bytes:
    """Send, and return all that comes until the other side closes; empty if it refuses."""
    return await _after(namespace, address, port, data, asyncio.StreamReader.read)


async def line(namespace: Namespace, address: str, port: int, data: bytes = b"") -> bytes:
    """Send, and return the first line that comes; empty if the connection is closed first."""
    return await _after(namespace, address, port, data, asyncio.StreamReader.readline)


async def _after(namespace: Namespace, address: str, port: int, data: bytes, read: Read) -> bytes:
    try:
        reader, writer = await dial(namespace, address, port)
    except ConnectionError:
        return b""
    try:
        writer.write(data)
        async with asyncio.timeout(_DEADLINE_S):
            return await read(reader)
    except ConnectionError:
        return b""
    finally:
        writer.close()


def _joined(body: bytes) -> bytes:
    """Return a body that came in chunks."""
    found = b""
    while body:
        size, _, body = body.partition(b"\r\n")
        length = int(size, 16)
        if not length:
            break
        found, body = found + body[:length], body[length + 2 :]
    return found
