"""A GET request to a server nearby, whose answer is read piece by piece."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from socket import SOCK_STREAM
from typing import NamedTuple, TypeAlias
from urllib.parse import urljoin, urlsplit

import h11

from mesh_address_guard import AddressGuard
from mesh_status_server._errors import FetchError

_READ_BYTES = 64 * 1024
_MOST_INFORMATIONAL = 10
_REDIRECTS = frozenset({301, 302, 303, 307, 308})
_MOST_REDIRECTS = 5
_LONGEST_QUOTE = 200
_LOOPBACK = ("127.0.0.1", "::1")
_GUARD = AddressGuard()
"""No server that is asked here is at a cloud's metadata service, whatever name leads there."""


class TcpAddress(NamedTuple):
    """Where a server listens. `localhost` is 127.0.0.1 and ::1, whatever a resolver says."""

    host: str
    port: int

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


Address: TypeAlias = TcpAddress | Path
"""A path is that of a Unix socket."""

Headers: TypeAlias = Sequence[tuple[str, str]]


class Answer:
    """An answer whose head has come.

    framed: the end of the body is given by a length or by chunks, not by the connection's end.
    """

    def __init__(
        self, head: h11.Response, reader: asyncio.StreamReader, protocol: h11.Connection
    ) -> None:
        self.status = head.status_code
        self._headers = head.headers
        self.framed = any(
            name in (b"content-length", b"transfer-encoding") for name, _ in head.headers
        )
        self._reader = reader
        self._protocol = protocol
        self._ended = False

    def header(self, name: str) -> str:
        """Return the value of a header, "" without one; name: in lower case."""
        wanted = name.encode("ascii")
        return next((text.decode("latin-1") for each, text in self._headers if each == wanted), "")

    async def read(self) -> bytes:
        """Return the next piece of the body, b"" at its end; raises `FetchError`."""
        pieces: list[bytes] = []
        while not self._ended:
            event = _next_event(self._protocol)
            if event is h11.NEED_DATA:
                if pieces:
                    break
                await _receive(self._reader, self._protocol)
            elif isinstance(event, h11.Data):
                pieces.append(event.data)
            else:
                self._ended = True
        return b"".join(pieces)


@asynccontextmanager
async def fetching(
    address: Address, target: str, *, headers: Headers = (), follow_redirects: bool = False
) -> AsyncIterator[Answer]:
    """Ask for a target, a path with its query; the connection is closed with the block.

    follow_redirects: to the same host and port; others are refused, for they lead away from what
    was configured. Nothing here ends by itself: the caller bounds the time.
    Raises `FetchError`.
    """
    for _ in range(_MOST_REDIRECTS + 1):
        async with _asking(address, target, headers) as answer:
            if not follow_redirects or answer.status not in _REDIRECTS:
                yield answer
                return
            target = _redirected(address, target, answer.header("location"))
    raise FetchError(f"it redirects more than {_MOST_REDIRECTS} times, the last to {target}")


@asynccontextmanager
async def _asking(address: Address, target: str, headers: Headers) -> AsyncIterator[Answer]:
    reader, writer = await _connect(address)
    try:
        protocol = h11.Connection(h11.CLIENT)
        writer.write(_request(protocol, address, target, headers))
        yield Answer(await _head(reader, protocol), reader, protocol)
    finally:
        await _abort(writer)


def _request(protocol: h11.Connection, address: Address, target: str, headers: Headers) -> bytes:
    host = "localhost" if isinstance(address, Path) else str(address)
    every = [("host", host), *headers, ("connection", "close")]
    try:
        head = protocol.send(h11.Request(method="GET", target=target, headers=every))
    except h11.LocalProtocolError as error:
        raise FetchError(f"{target[:_LONGEST_QUOTE]!r} can't be asked for: {error}") from error
    return (head or b"") + (protocol.send(h11.EndOfMessage()) or b"")


async def _head(reader: asyncio.StreamReader, protocol: h11.Connection) -> h11.Response:
    informational = 0
    while True:
        event = _next_event(protocol)
        if event is h11.NEED_DATA:
            await _receive(reader, protocol)
        elif isinstance(event, h11.Response):
            return event
        elif isinstance(event, h11.InformationalResponse):
            informational += 1
            if informational > _MOST_INFORMATIONAL:
                raise FetchError(f"more than {_MOST_INFORMATIONAL} answers of status 1xx came")
        else:
            raise FetchError("the connection was closed without an answer")


def _next_event(protocol: h11.Connection) -> h11.Event | type[h11.NEED_DATA] | type[h11.PAUSED]:
    try:
        return protocol.next_event()
    except h11.RemoteProtocolError as error:
        raise FetchError(f"the answer breaks off or is no HTTP/1.1: {error}") from error


async def _receive(reader: asyncio.StreamReader, protocol: h11.Connection) -> None:
    try:
        data = await reader.read(_READ_BYTES)
    except OSError as error:
        raise FetchError(f"the connection broke: {_reason(error)}") from error
    protocol.receive_data(data)


async def _connect(address: Address) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    refusals: list[str] = []
    for each in await _each_address(address):
        try:
            if isinstance(each, Path):
                return await asyncio.open_unix_connection(str(each), limit=_READ_BYTES)
            if (network := _GUARD.blocks(each.host)) is not None:
                refusals.append(f"{each} is a blocked address: it is in {network}")
                continue
            reader, writer = await asyncio.open_connection(each.host, each.port, limit=_READ_BYTES)
        except (OSError, ValueError) as error:
            refusals.append(f"{each}: {_reason(error)}")
            continue
        if writer.get_extra_info("sockname") != writer.get_extra_info("peername"):
            return reader, writer
        # Both ends chose one port, and the kernel connected the socket with itself.
        await _abort(writer)
        refusals.append(f"{each}: connection refused")
    raise FetchError("no connection: " + "; ".join(refusals))


async def _abort(writer: asyncio.StreamWriter) -> None:
    # Not closed: a server that goes on sending would hold up the one who asked.
    writer.transport.abort()
    with contextlib.suppress(OSError):
        await writer.wait_closed()


async def _each_address(address: Address) -> Sequence[Address]:
    """Return a path, or addresses without names, so that those which are judged are connected to.

    Raises `FetchError` for a name that has none.
    """
    if isinstance(address, Path):
        return [address]
    if address.host == "localhost":
        return [TcpAddress(host, address.port) for host in _LOOPBACK]
    loop = asyncio.get_running_loop()
    try:
        found = await loop.getaddrinfo(address.host, address.port, type=SOCK_STREAM)
    except (OSError, ValueError) as error:
        raise FetchError(f"no connection: {address}: {_reason(error)}") from error
    return [TcpAddress(str(place[0]), address.port) for *_, place in found]


def _redirected(address: Address, target: str, location: str) -> str:
    """Return the target that an answer leads to; raises `FetchError` if that is elsewhere."""
    here = f"http://{'localhost' if isinstance(address, Path) else address}"
    try:
        url = urlsplit(urljoin(f"{here}{target}", location))
    except ValueError as error:
        raise FetchError(
            f"it redirects to {location[:_LONGEST_QUOTE]!r}, which is no URL"
        ) from error
    if not location or f"{url.scheme}://{url.netloc}" != here:
        raise FetchError(
            f"it redirects to {location[:_LONGEST_QUOTE]!r}, which is not at {here}; "
            "name the path that it leads to"
        )
    return f"{url.path or '/'}?{url.query}" if url.query else url.path or "/"


def _reason(error: Exception) -> str:
    import os
    import socket

    if isinstance(error, OSError) and error.errno and not isinstance(error, socket.gaierror):
        return os.strerror(error.errno).lower()
    return str(error) or type(error).__name__
