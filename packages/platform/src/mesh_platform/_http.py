"""One request to a metadata server: bounded, without redirects, proxies or names to look up."""

import asyncio
import json
from collections.abc import Mapping
from typing import NamedTuple

import h11

from mesh_platform._errors import NoMetadata

MAX_BYTES = 64 << 10


class MetadataAddress(NamedTuple):
    """Where a metadata server listens."""

    host: str
    port: int

    def __str__(self) -> str:
        return f"{self.host}:{self.port}"


class Answer(NamedTuple):
    """An answer; the names of `headers` are in lower case."""

    status: int
    headers: Mapping[str, str]
    body: bytes


async def ask(
    server: MetadataAddress,
    path: str,
    *,
    host: str,
    headers: Mapping[str, str],
    method: str = "GET",
) -> Answer:
    """Send one request on a connection of its own; raises `NoMetadata`.

    The caller bounds the time.
    """
    try:
        reader, writer = await asyncio.open_connection(server.host, server.port, limit=MAX_BYTES)
    except OSError as error:
        raise NoMetadata(f"{server} can't be reached: {error.strerror or error}") from error
    try:
        return await _exchange(reader, writer, server, _request(method, path, host, headers))
    except OSError as error:
        raise NoMetadata(f"{server} ended the connection") from error
    except h11.ProtocolError as error:
        raise NoMetadata(f"{server} did not answer in HTTP") from error
    finally:
        writer.transport.abort()  # a peer that reads nothing can't hold this up


def _request(method: str, path: str, host: str, headers: Mapping[str, str]) -> h11.Request:
    return h11.Request(
        method=method,
        target=path,
        headers=[("host", host), ("connection", "close"), *headers.items()],
    )


async def _exchange(
    reader: asyncio.StreamReader,
    writer: asyncio.StreamWriter,
    server: MetadataAddress,
    request: h11.Request,
) -> Answer:
    connection = h11.Connection(h11.CLIENT, max_incomplete_event_size=16 << 10)
    writer.write((connection.send(request) or b"") + (connection.send(h11.EndOfMessage()) or b""))
    status, found, body = 0, {}, bytearray()
    received = 0
    while True:
        event = connection.next_event()
        if event is h11.NEED_DATA:
            received += len(data := await reader.read(4096))
            if received > 2 * MAX_BYTES:
                raise NoMetadata(f"{server} sent more than {2 * MAX_BYTES} bytes")
            connection.receive_data(data)
        elif isinstance(event, h11.Response):
            status = event.status_code
            found = {
                name.decode("latin-1"): value.decode("latin-1") for name, value in event.headers
            }
        elif isinstance(event, h11.Data):
            body += event.data
            if len(body) > MAX_BYTES:
                raise NoMetadata(f"{server} answered with more than {MAX_BYTES} bytes")
        elif isinstance(event, h11.EndOfMessage):
            return Answer(status, found, bytes(body))
        elif not isinstance(event, h11.InformationalResponse):
            raise NoMetadata(f"{server} ended the connection")


async def ask_for_text(
    server: MetadataAddress, path: str, *, host: str, headers: Mapping[str, str]
) -> tuple[str, Mapping[str, str]]:
    """Return the text of a page, and the headers; raises `NoMetadata`, for redirects too."""
    answer = await ask(server, path, host=host, headers=headers)
    if answer.status != 200:
        raise NoMetadata(f"{server}{path} answered {answer.status}")
    try:
        return answer.body.decode("utf-8").strip(), answer.headers
    except UnicodeDecodeError as error:
        raise NoMetadata(f"{server}{path} is not text") from error


def read_object(text: str, what: str) -> Mapping[str, object]:
    """Return a JSON object; raises `NoMetadata`. what: names it in the error."""
    try:
        value = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise NoMetadata(f"{what} is not JSON") from error
    if not isinstance(value, dict):
        raise NoMetadata(f"{what} is not a JSON object")
    return value
