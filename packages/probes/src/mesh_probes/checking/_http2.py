"""One request over HTTP/2, and the beginning of its response: for GET requests and gRPC calls."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from mesh_probes._errors import CheckFailed
from mesh_probes._outcome import MAX_BODY_BYTES
from mesh_probes.checking._connection import Connection
from mesh_probes.checking._request import Request, Response, encoded

if TYPE_CHECKING:
    import h2.connection
    import h2.events

_STREAM = 1


@dataclass(slots=True)
class Exchange:
    """The part of a response that has arrived."""

    headers: dict[bytes, bytes] = field(default_factory=dict)
    """Those of the head and of the trailers."""
    body: bytearray = field(default_factory=bytearray)
    ended: bool = False

    @property
    def status(self) -> int:
        """The HTTP status; raises `CheckFailed` if there is none."""
        text = self.headers.get(b":status", b"")
        if len(text) != 3 or not text.isdigit():
            raise CheckFailed(f"the response has the status {text!r}")
        return int(text)


async def fetch_http2(connection: Connection, request: Request) -> Response:
    """Send a GET request and return its response; raises `CheckFailed`."""
    headers = [
        (b":method", b"GET"),
        (b":scheme", request.scheme.encode()),
        (b":authority", encoded(request.authority)),
        (b":path", request.target.encode()),
        *(
            (name.lower().encode(errors="replace"), encoded(value))
            for name, value in request.headers
        ),
    ]
    exchange = await exchange_http2(connection, headers)
    location = exchange.headers.get(b"location")
    return Response(
        status=exchange.status,
        location=None if location is None else location.decode("latin-1"),
        body=bytes(exchange.body[:MAX_BODY_BYTES]),
    )


async def exchange_http2(
    connection: Connection, headers: Sequence[tuple[bytes, bytes]], content: bytes | None = None
) -> Exchange:
    """Send one request on a new connection and return the beginning of the response.

    It returns at the end of the response or after 10 KiB of its body. Raises `CheckFailed`.
    """
    import h2.config
    import h2.connection
    import h2.exceptions
    import h2.settings

    http = h2.connection.H2Connection(
        h2.config.H2Configuration(client_side=True, header_encoding=None)
    )
    http.local_settings = h2.settings.Settings(
        client=True, initial_values={h2.settings.SettingCodes.ENABLE_PUSH: 0}
    )
    http.initiate_connection()
    try:
        http.send_headers(_STREAM, list(headers), end_stream=content is None)
        if content is not None:
            http.send_data(_STREAM, content, end_stream=True)
    except h2.exceptions.H2Error as error:
        raise CheckFailed(f"the request can't be sent: {error}") from error
    exchange = Exchange()
    while not exchange.ended and len(exchange.body) < MAX_BODY_BYTES:
        await connection.send(http.data_to_send())
        data = await connection.receive()
        if not data:
            raise CheckFailed("the connection was closed before the end of the response")
        try:
            for event in http.receive_data(data):
                _record(event, exchange, http)
        # Beside its own errors, h2 lets some of the libraries below it pass.
        except (h2.exceptions.H2Error, ValueError, LookupError) as error:
            raise CheckFailed(f"there was no response of HTTP/2: {error}") from error
    return exchange


def _record(
    event: "h2.events.Event", exchange: Exchange, http: "h2.connection.H2Connection"
) -> None:
    import h2.events

    match event:
        case h2.events.ResponseReceived() | h2.events.TrailersReceived():
            for name, value in event.headers or ():
                exchange.headers.setdefault(_bytes(name), _bytes(value))
        case h2.events.DataReceived():
            exchange.body += event.data or b""
            http.acknowledge_received_data(event.flow_controlled_length or 0, _STREAM)
        case h2.events.StreamEnded():
            exchange.ended = True
        case h2.events.StreamReset():
            # A server may refuse the rest of a request after it has answered.
            if not exchange.ended:
                raise CheckFailed(f"the stream was reset with error {_number(event.error_code)}")
        case h2.events.ConnectionTerminated():
            if not exchange.ended and (event.last_stream_id or 0) < _STREAM:
                code = _number(event.error_code)
                raise CheckFailed(f"the connection was ended with error {code}")
        case _:
            pass


def _bytes(text: str | bytes) -> bytes:
    return text.encode() if isinstance(text, str) else bytes(text)


def _number(code: object) -> str:
    return str(int(code)) if isinstance(code, int) else "unknown"
