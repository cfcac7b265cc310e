"""Gets one page of an HTTP server that may be any program: bounded in time and size."""

import asyncio
import json
import time
from contextlib import suppress
from dataclasses import dataclass
from email.utils import parsedate_to_datetime

import h11

from mesh_doctor._config import HttpPlace
from mesh_doctor._observed import SeenClock, SeenPage
from mesh_identity import HostNotResolved, fetch_addresses

_READ_BYTES = 64 << 10
_MAX_BODY_BYTES = 8 << 20


class NoPage(Exception):
    """No whole answer in HTTP; the message says why. refused: nothing listens there."""

    def __init__(self, reason: str, *, refused: bool = False, answered: bool = False) -> None:
        super().__init__(reason)
        self.refused = refused
        self.answered = answered


@dataclass(frozen=True, slots=True, kw_only=True)
class Page:
    """An answer. date: its header's text, empty without one."""

    status: int
    body: bytes
    date: str


async def fetch_page(place: HttpPlace, *, timeout_s: float, with_body: bool = True) -> Page:
    """Return a page; raises NoPage. with_body: False reads no more than the headers."""
    try:
        async with asyncio.timeout(timeout_s):
            return await _fetched(place, with_body=with_body)
    except TimeoutError:
        raise NoPage(f"no whole answer within {timeout_s:g} s") from None
    except ConnectionRefusedError:
        raise NoPage("connection refused", refused=True) from None
    except h11.RemoteProtocolError:
        raise NoPage("it does not answer in HTTP", answered=True) from None
    except HostNotResolved as error:
        raise NoPage(str(error)) from None
    except OSError as error:
        raise NoPage(error.strerror or str(error) or type(error).__name__) from None


async def _fetched(place: HttpPlace, *, with_body: bool) -> Page:
    host, *_ = await fetch_addresses(place.host)
    reader, writer = await asyncio.open_connection(host, place.port)
    try:
        connection = h11.Connection(our_role=h11.CLIENT)
        request = h11.Request(
            method="GET",
            target=place.path,
            headers=[("host", place.address), ("connection", "close")],
        )
        writer.write(connection.send(request) or b"")
        writer.write(connection.send(h11.EndOfMessage()) or b"")
        await writer.drain()
        return await _answer(connection, reader, with_body=with_body)
    finally:
        writer.transport.abort()
        with suppress(OSError):
            await writer.wait_closed()


async def _answer(
    connection: h11.Connection, reader: asyncio.StreamReader, *, with_body: bool
) -> Page:
    status, date = 0, ""
    body = bytearray()
    while True:
        event = connection.next_event()
        if event is h11.NEED_DATA:
            connection.receive_data(await reader.read(_READ_BYTES))
        elif isinstance(event, h11.Response):
            status = event.status_code
            headers = {bytes(name): bytes(value) for name, value in event.headers}
            date = headers.get(b"date", b"").decode("ascii", "replace")
            if not with_body:
                break
        elif isinstance(event, h11.Data):
            body += event.data
            if len(body) > _MAX_BODY_BYTES:
                raise NoPage(
                    f"it answers with more than {_MAX_BODY_BYTES >> 20} MiB", answered=True
                )
        elif isinstance(event, h11.EndOfMessage | h11.ConnectionClosed):
            break
    return Page(status=status, body=bytes(body), date=date)


async def seen_page(place: HttpPlace, *, timeout_s: float) -> SeenPage:
    """Return the JSON object that a page holds."""
    try:
        page = await fetch_page(place, timeout_s=timeout_s)
    except NoPage as error:
        return SeenPage(reason=str(error), refused=error.refused, answered=error.answered)
    said = " ".join(page.body[:200].decode("utf-8", "replace").split())
    if said.startswith("<"):
        said = "a page of HTML"
    if page.status != 200:
        return SeenPage(reason=f"it answers {page.status}: {said}", answered=True)
    try:
        document = json.loads(page.body)
    except (ValueError, RecursionError):
        document = None
    if not isinstance(document, dict):
        return SeenPage(reason="it does not answer with a JSON object", answered=True)
    return SeenPage(document=document, answered=True)


async def seen_clock(place: HttpPlace, *, timeout_s: float) -> SeenClock | None:
    """Return the clock of an HTTP server, from its answer's header; None if there is none."""
    asked_at = time.time()
    try:
        page = await fetch_page(place, timeout_s=timeout_s, with_body=False)
        date = parsedate_to_datetime(page.date)
    except (NoPage, ValueError, TypeError):
        return None
    # Between the question and the answer; the header has whole seconds, cut off.
    half_way = (asked_at + time.time()) / 2
    return SeenClock(place=place, ahead_s=date.timestamp() + 0.5 - half_way)
