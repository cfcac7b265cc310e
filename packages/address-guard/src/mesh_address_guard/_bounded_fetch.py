"""One HTTP/1.1 request whose target and whose server no one vouches for.

The connection is to an address that was judged, redirects are the caller's to look at, and all that
is read is bounded: not only the body, but also the bytes and pieces that it is wrapped in, and the
answers before the answer. Compression is not asked for, and refused.
"""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import NamedTuple
from urllib.parse import quote, urlsplit

import h11

from mesh_address_guard._address_guard import AddressGuard

LookUp = Callable[[str], Awaitable[Sequence[str]]]

_PORTS = {"http": 80, "https": 443}
_SAFE = "!#$%&'()*+,/:;=?@[]~-._"
_READ_BYTES = 64 * 1024
_MAX_HEAD_BYTES = 64 * 1024
_MOST_INFORMATIONAL = 10
_MOST_ADDRESSES = 8
_FREE_BYTES = 256 * 1024
_FREE_PIECES = 1000
"""More is taken only for a body that grows with it."""


class FetchFailed(Exception):
    """There is no answer; the message says why, and has nothing of the request but its host."""


class ConnectFailed(FetchFailed):
    """The server cannot be connected to, or the connection broke: it may work the next time."""


class NotVerified(FetchFailed):
    """The server's certificate does not verify."""


class BadAnswer(FetchFailed):
    """The server's answer is no HTTP, is too much, or is compressed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FetchedAnswer:
    """An answer with its whole body, whatever its status.

    headers: with names in lower case; of several of a name the first.
    """

    status: int
    headers: Mapping[str, str]
    body: bytes = field(repr=False)


class _Target(NamedTuple):
    scheme: str
    host: str
    port: int
    path: str

    @property
    def authority(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        return host if self.port == _PORTS[self.scheme] else f"{host}:{self.port}"


async def fetch_bounded(
    url: str,
    *,
    guard: AddressGuard,
    look_up: LookUp,
    max_bytes: int,
    tls: ssl.SSLContext | None = None,
    headers: Mapping[str, str] | None = None,
    form: bytes | None = None,
) -> FetchedAnswer:
    """Send a GET, or with `form` a POST, on a connection of its own, and return the answer.

    url: http or https, without user and password. tls: needed for https.
    look_up: returns the addresses of a host, also of one that is an address.
    max_bytes: of the body.
    The time is the caller's to bound.
    Raises AddressBlocked, FetchFailed, and what `look_up` raises.
    """
    target = _target(url)
    request = _request(target, headers or {}, form)
    addresses = guard.admitted(target.host, await look_up(target.host))
    reader, writer = await _connected(target, addresses[:_MOST_ADDRESSES], tls)
    try:
        writer.write(request.head)
        await writer.drain()
        return await _Reading(reader, request.protocol, max_bytes).answer()
    except OSError as error:
        raise ConnectFailed(f"the connection broke: {error.strerror or error}") from error
    finally:
        # Not closed: a server that goes on sending would hold up the one who asked.
        writer.transport.abort()
        with suppress(OSError):
            await writer.wait_closed()


def _target(url: str) -> _Target:
    try:
        parts = urlsplit(url)
        host, port = parts.hostname or "", parts.port
        if not host.isascii():
            host = host.encode("idna").decode("ascii")
    except ValueError as error:
        raise FetchFailed("it is no URL") from error
    if parts.scheme not in _PORTS or not host or parts.username is not None:
        raise FetchFailed("it is no URL with http or https and a host")
    path = quote(parts.path or "/", safe=_SAFE)
    if parts.query:
        path += "?" + quote(parts.query, safe=_SAFE)
    return _Target(parts.scheme, host, port or _PORTS[parts.scheme], path)


class _Request(NamedTuple):
    head: bytes
    protocol: h11.Connection


def _request(target: _Target, headers: Mapping[str, str], form: bytes | None) -> _Request:
    protocol = h11.Connection(h11.CLIENT, max_incomplete_event_size=_MAX_HEAD_BYTES)
    every = [("host", target.authority), *headers.items()]
    every += [("accept-encoding", "identity"), ("connection", "close")]
    if form is not None:
        every += [
            ("content-type", "application/x-www-form-urlencoded"),
            ("content-length", str(len(form))),
        ]
    method = "GET" if form is None else "POST"
    try:
        head = protocol.send(h11.Request(method=method, target=target.path, headers=every))
        body = protocol.send(h11.Data(data=form)) if form is not None else b""
        end = protocol.send(h11.EndOfMessage())
    except (h11.LocalProtocolError, UnicodeEncodeError):
        # Its message may quote a header, which may be a secret.
        raise FetchFailed("the request cannot be sent: it has characters that none can") from None
    return _Request((head or b"") + (body or b"") + (end or b""), protocol)


async def _connected(
    target: _Target, addresses: Sequence[str], tls: ssl.SSLContext | None
) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    if (tls is None) is (target.scheme == "https"):
        raise ValueError("https needs settings of TLS, and http takes none")
    problem = ""
    for address in addresses:
        try:
            return await asyncio.open_connection(
                address,
                target.port,
                ssl=tls,
                server_hostname=target.host if tls is not None else None,
                limit=_READ_BYTES,
            )
        except ssl.SSLCertVerificationError as error:
            raise NotVerified(
                f"the server's certificate does not verify: {error.verify_message}"
            ) from error
        except OSError as error:
            problem = f"{address} cannot be connected to: {_reason(error)}"
    raise ConnectFailed(problem)


def _reason(error: OSError) -> str:
    import os

    if error.errno and not isinstance(error, ssl.SSLError):
        return os.strerror(error.errno).lower()
    return error.strerror or str(error)


class _Reading:
    """Reads one answer, within bounds."""

    def __init__(
        self, reader: asyncio.StreamReader, protocol: h11.Connection, max_bytes: int
    ) -> None:
        self._reader = reader
        self._protocol = protocol
        self._max_bytes = max_bytes
        self._is_ended = False
        self._received = 0
        self._size = 0

    async def answer(self) -> FetchedAnswer:
        head = await self._head()
        headers: dict[str, str] = {}
        for name, value in head.headers:
            headers.setdefault(name.decode("latin-1"), value.decode("latin-1"))
        if headers.get("content-encoding", "identity").lower() != "identity":
            raise BadAnswer("the answer is compressed, which was not asked for")
        length = headers.get("content-length", "")
        if length.isdigit() and int(length) > self._max_bytes:
            raise BadAnswer(f"the answer has {length} bytes, more than {self._max_bytes}")
        return FetchedAnswer(status=head.status_code, headers=headers, body=await self._body())

    async def _head(self) -> h11.Response:
        for _ in range(_MOST_INFORMATIONAL + 1):
            event = await self._next()
            if isinstance(event, h11.Response):
                return event
            if not isinstance(event, h11.InformationalResponse):
                raise ConnectFailed("the connection ended before the answer")
        raise BadAnswer(f"more than {_MOST_INFORMATIONAL} answers of status 1xx came")

    async def _body(self) -> bytes:
        pieces: list[bytes] = []
        while isinstance(event := await self._next(), h11.Data):
            pieces.append(bytes(event.data))
            self._size += len(event.data)
            if self._size > self._max_bytes:
                raise BadAnswer(f"the answer has more than {self._max_bytes} bytes")
            # Each costs time, however little is in it.
            if len(pieces) > _FREE_PIECES + self._size // 64:
                raise BadAnswer("the answer is cut into pieces of less than 64 bytes")
        return b"".join(pieces)

    async def _next(self) -> h11.Event | type[h11.NEED_DATA | h11.PAUSED]:
        while True:
            try:
                event = self._protocol.next_event()
            except h11.RemoteProtocolError as error:
                if error.error_status_hint == 431:
                    raise BadAnswer(f"a head of more than {_MAX_HEAD_BYTES} bytes") from None
                # The error quotes what came, which may repeat what was sent.
                if self._is_ended:
                    raise ConnectFailed("the connection ended before the answer") from None
                raise BadAnswer("the answer is no HTTP/1.1") from None
            if event is not h11.NEED_DATA:
                return event
            data = await self._reader.read(_READ_BYTES)
            self._is_ended = not data
            self._received += len(data)
            if self._received > _FREE_BYTES + 4 * self._size:
                raise BadAnswer("the answer is more wrapping than content")
            self._protocol.receive_data(data)
