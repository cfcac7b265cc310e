"""HTTP/1.1 requests whose answers are read piece by piece, redirects included.

Each redirect is a request like the first: its host is looked up and checked too.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager

import h11

from wasm_modules._errors import DownloadError, PassingFailure
from wasm_modules.fetching._network import Network
from wasm_modules.fetching._url import Url

_READ_BYTES = 64 * 1024
_MAX_HEAD_BYTES = 64 * 1024
_MOST_INFORMATIONAL = 10
_FREE_BYTES = 256 * 1024
_FREE_PIECES = 1000
"""More of what a body is wrapped in is taken only for one that grows with it."""
_MOST_REDIRECTS = 10
_REDIRECTS = frozenset({301, 302, 303, 307, 308})
_FINAL_STATUSES = frozenset({501, 505, 511})


class Answer:
    """An answer whose head has come.

    url: the last one, after redirects.
    """

    def __init__(
        self, url: Url, head: h11.Response, reader: asyncio.StreamReader, protocol: h11.Connection
    ) -> None:
        self.url = url
        self.status = head.status_code
        self._headers = head.headers
        self._reader = reader
        self._protocol = protocol
        self._most = self._size = self._pieces = self._received = 0

    def headers(self, name: str) -> tuple[str, ...]:
        """Return the values of a header; name: in lower case."""
        wanted = name.encode("ascii")
        return tuple(value.decode("latin-1") for each, value in self._headers if each == wanted)

    def header(self, name: str) -> str:
        """Return the first value of a header, "" without one; name: in lower case."""
        return next(iter(self.headers(name)), "")

    def check_status(self) -> None:
        """Raise DownloadError unless the status is 200, PassingFailure if that may pass."""
        if self.status == 200:
            return
        text = f"{self.url}: status {self.status}"
        if (self.status >= 500 and self.status not in _FINAL_STATUSES) or self.status == 429:
            raise PassingFailure(text)
        raise DownloadError(text)

    def limit(self, most: int) -> None:
        """Bound the body; raises DownloadError if it is announced with more bytes."""
        self._most = most
        length = self.header("content-length")
        if length.isdigit() and int(length) > most:
            raise DownloadError(f"{self.url}: {length} bytes, more than {most}")

    async def read(self) -> bytes:
        """Return the next piece of the body, b"" at its end.

        Raises DownloadError once there are more bytes than `limit` allows, PassingFailure if the
        body breaks off.
        """
        while True:
            event = _next_event(self.url, self._protocol)
            if event is h11.NEED_DATA:
                self._received += await _receive(self.url, self._reader, self._protocol)
                if self._received > _FREE_BYTES + 4 * self._size:
                    raise DownloadError(f"{self.url}: more bytes of chunks than of content")
            elif isinstance(event, h11.Data):
                self._size += len(event.data)
                self._pieces += 1
                if self._size > self._most:
                    raise DownloadError(f"{self.url}: more than {self._most} bytes")
                # Each costs time, however little is in it.
                if self._pieces > _FREE_PIECES + self._size // 64:
                    raise DownloadError(f"{self.url}: it is cut into pieces of less than 64 bytes")
                return bytes(event.data)
            else:
                return b""

    async def body(self, most: int) -> bytes:
        """Return the whole body, of at most so many bytes; raises as `limit` and `read` do."""
        self.limit(most)
        pieces = []
        while piece := await self.read():
            pieces.append(piece)
        return b"".join(pieces)


@asynccontextmanager
async def fetching(
    network: Network,
    url: Url,
    *,
    headers: Mapping[str, str] | None = None,
    form: bytes | None = None,
    follow_redirects: bool = True,
) -> AsyncIterator[Answer]:
    """Send a GET, or with `form` a POST, and yield the answer, whatever its status.

    A redirect to another origin is followed without the header Authorization; one from https to
    http only to a host that need not show who it is. The time is the caller's to bound. Raises
    DownloadError, PassingFailure.
    """
    sent = {name.lower(): value for name, value in (headers or {}).items()}
    if url.credentials and "authorization" not in sent:
        sent["authorization"] = url.basic_authorization
    for _ in range(_MOST_REDIRECTS + 1):
        async with _asking(network, url, sent, form) as answer:
            if not follow_redirects or answer.status not in _REDIRECTS:
                yield answer
                return
            after = url.joined(answer.header("location"))
        if url.scheme == "https" and after.scheme == "http" and not network.is_insecure(after):
            raise DownloadError(f"{url} redirects to {after}, which is not https")
        if after.origin != url.origin:
            sent.pop("authorization", None)
        url = after
    raise DownloadError(f"{url}: more than {_MOST_REDIRECTS} redirects")


@asynccontextmanager
async def _asking(
    network: Network, url: Url, headers: Mapping[str, str], form: bytes | None
) -> AsyncIterator[Answer]:
    async with network.connecting(url) as (reader, writer):
        protocol = h11.Connection(h11.CLIENT, max_incomplete_event_size=_MAX_HEAD_BYTES)
        try:
            writer.write(_request(url, protocol, headers, form))
            await writer.drain()
        except OSError as error:
            raise PassingFailure(f"{url}: the connection broke: {error}") from error
        yield Answer(url, await _head(url, reader, protocol), reader, protocol)


def _request(
    url: Url, protocol: h11.Connection, headers: Mapping[str, str], form: bytes | None
) -> bytes:
    every = [("host", url.authority), *headers.items()]
    every += [("accept-encoding", "identity"), ("connection", "close")]
    if form is not None:
        every += [
            ("content-type", "application/x-www-form-urlencoded"),
            ("content-length", str(len(form))),
        ]
    try:
        head = h11.Request(
            method="GET" if form is None else "POST", target=url.target, headers=every
        )
        parts = [protocol.send(head), form and protocol.send(h11.Data(data=form))]
        parts.append(protocol.send(h11.EndOfMessage()))
    except (h11.LocalProtocolError, UnicodeEncodeError) as error:
        raise DownloadError(f"{url}: the request cannot be sent: {error}") from None
    return b"".join(part for part in parts if part)


async def _head(url: Url, reader: asyncio.StreamReader, protocol: h11.Connection) -> h11.Response:
    informational = 0
    while True:
        event = _next_event(url, protocol)
        if event is h11.NEED_DATA:
            await _receive(url, reader, protocol)
        elif isinstance(event, h11.Response):
            return event
        elif isinstance(event, h11.InformationalResponse):
            informational += 1
            if informational > _MOST_INFORMATIONAL:
                raise DownloadError(f"{url}: more than {_MOST_INFORMATIONAL} answers of status 1xx")
        else:
            raise PassingFailure(f"{url}: the connection was closed without an answer")


def _next_event(url: Url, protocol: h11.Connection) -> type[h11.NEED_DATA | h11.PAUSED] | h11.Event:
    try:
        return protocol.next_event()
    except h11.RemoteProtocolError as error:
        text = f"{url}: the answer breaks off or is no HTTP/1.1: {error}"
        if protocol.their_state is h11.ERROR and error.error_status_hint == 431:
            raise DownloadError(f"{url}: a head of more than {_MAX_HEAD_BYTES} bytes") from None
        raise PassingFailure(text) from None


async def _receive(url: Url, reader: asyncio.StreamReader, protocol: h11.Connection) -> int:
    """Give the parser what has come; returns how many bytes."""
    try:
        data = await reader.read(_READ_BYTES)
    except OSError as error:
        raise PassingFailure(f"{url}: the connection broke: {error}") from error
    protocol.receive_data(data)
    return len(data)
