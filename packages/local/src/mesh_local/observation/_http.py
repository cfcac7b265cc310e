"""A small HTTP client: each request has a connection of its own."""

import asyncio
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass

import h11

from mesh_local._errors import NoAnswer
from mesh_local.capture._connecting import open_connection
from mesh_local.config._addresses import Inside

MAX_BODY_BYTES = 1024 * 1024
_NO_HEADERS: Mapping[str, str] = {}


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """An HTTP response; header names are lower-case."""

    status: int
    headers: Mapping[str, str]
    body: str
    elapsed_s: float


async def fetch(
    host: str | Inside,
    port: int,
    *,
    method: str = "GET",
    target: str = "/",
    authority: str = "",
    headers: Mapping[str, str] = _NO_HEADERS,
    body: bytes = b"",
    timeout_s: float = 10.0,
    max_bytes: int = MAX_BODY_BYTES,
) -> Answer:
    """Send one request and read its whole answer; raises `NoAnswer`.

    authority: the Host header, if not the address itself. headers: take the place of those that are
    sent otherwise.
    """
    loop = asyncio.get_running_loop()
    started = loop.time()
    try:
        async with asyncio.timeout(timeout_s):
            reader, writer = await open_connection(host, port)
            try:
                connection = h11.Connection(our_role=h11.CLIENT)
                sent = {
                    "host": authority or f"{host}:{port}",
                    "user-agent": "mesh-local",
                    **{name.lower(): value for name, value in headers.items()},
                    "content-length": str(len(body)),
                    "connection": "close",
                }
                request = h11.Request(method=method, target=target, headers=list(sent.items()))
                writer.write(connection.send(request) or b"")
                writer.write(connection.send(h11.Data(body)) or b"")
                writer.write(connection.send(h11.EndOfMessage()) or b"")
                status, found, body = await _read(connection, reader, max_bytes=max_bytes)
            finally:
                writer.close()
                with suppress(OSError):
                    await writer.wait_closed()
    except TimeoutError:
        raise NoAnswer(f"no answer within {timeout_s:g} s") from None
    except OSError as error:
        raise NoAnswer(error.strerror or str(error)) from None
    except h11.LocalProtocolError as error:
        raise NoAnswer(f"this request can't be sent ({error})") from None
    except h11.RemoteProtocolError as error:
        raise NoAnswer(f"no whole HTTP answer ({error})") from None
    return Answer(
        status=status,
        headers=found,
        body=body.decode(errors="replace"),
        elapsed_s=loop.time() - started,
    )


async def _read(
    connection: h11.Connection, reader: asyncio.StreamReader, *, max_bytes: int
) -> tuple[int, dict[str, str], bytes]:
    status, headers = 0, dict[str, str]()
    body = bytearray()
    while True:
        event = connection.next_event()
        if event is h11.NEED_DATA:
            data = await reader.read(65536)
            if not data and not status:
                raise NoAnswer("the connection was closed without an answer")
            connection.receive_data(data)
        elif isinstance(event, h11.Response):
            status = event.status_code
            headers = {name.decode(): value.decode("latin-1") for name, value in event.headers}
        elif isinstance(event, h11.Data):
            body += event.data
            if len(body) > max_bytes:
                raise h11.RemoteProtocolError(f"a body larger than {max_bytes} bytes")
        elif isinstance(event, h11.EndOfMessage):
            return status, headers, bytes(body)
        elif isinstance(event, h11.ConnectionClosed):
            raise h11.RemoteProtocolError("the connection was closed")
