"""One request over HTTP/1.1, and the beginning of its response."""

from typing import TYPE_CHECKING

from mesh_probes._errors import CheckFailed
from mesh_probes._outcome import MAX_BODY_BYTES
from mesh_probes.checking._connection import Connection
from mesh_probes.checking._request import Request, Response, encoded

if TYPE_CHECKING:
    import h11

_MAX_HEAD_BYTES = 64 * 1024
_TLS_RECORDS = (b"\x15\x03", b"\x16\x03")


async def fetch_http1(connection: Connection, request: Request) -> Response:
    """Send a request and return its response; raises `CheckFailed`."""
    import h11

    http = h11.Connection(h11.CLIENT, max_incomplete_event_size=_MAX_HEAD_BYTES)
    headers: list[tuple[bytes, bytes]] = [
        (b"Host", encoded(request.authority)),
        *((name.encode(errors="replace"), encoded(value)) for name, value in request.headers),
        (b"Connection", b"close"),
    ]
    try:
        get = h11.Request(method="GET", target=request.target, headers=headers)
        data = (http.send(get) or b"") + (http.send(h11.EndOfMessage()) or b"")
    except h11.LocalProtocolError as error:
        raise CheckFailed(f"the request can't be sent: {error}") from error
    await connection.send(data)
    return await _response(connection, http)


async def _response(connection: Connection, http: "h11.Connection") -> Response:
    import h11

    head: h11.Response | None = None
    body = bytearray()
    first = True
    while True:
        try:
            event = http.next_event()
            if event is h11.NEED_DATA:
                data = await connection.receive()
                if first and data.startswith(_TLS_RECORDS):
                    raise CheckFailed("the answer is TLS, is the scheme https needed?")
                first = False
                if not data and head is None:
                    raise CheckFailed("the connection was closed before a response")
                http.receive_data(data)
                continue
        except h11.RemoteProtocolError as error:
            what = "the response was cut off" if head else "there was no response of HTTP/1.1"
            raise CheckFailed(f"{what}: {error}") from error
        if isinstance(event, h11.Response):
            head = event
        elif isinstance(event, h11.Data):
            body += event.data
        ended = isinstance(event, h11.EndOfMessage | h11.ConnectionClosed)
        if ended or len(body) >= MAX_BODY_BYTES:
            break
    if head is None:
        raise CheckFailed("the response has no head")
    location = next((value for name, value in head.headers if name == b"location"), None)
    return Response(
        status=head.status_code,
        location=None if location is None else location.decode("latin-1"),
        body=bytes(body[:MAX_BODY_BYTES]),
    )
