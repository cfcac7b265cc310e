"""A small HTTP/1.1 server: h11 parses the protocol, this module reads and writes the sockets.

h11 rather than a web framework because a framework alone takes a tenth of the memory the whole
agent may use; the figures are in docs/decisions/0001-libraries.md.
"""

import asyncio
import contextlib
import ipaddress
import json
import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from functools import partial
from http import HTTPStatus

import h11

import mesh_listening
from mesh_agent._errors import ListenError
from mesh_listening import HTTP_LIMITS, ConnectionLimits, Port, Reason

log = logging.getLogger(__name__)

_READ_BYTES = 16 * 1024
_MAX_HEADER_BYTES = 16 * 1024
_MAX_BODY_BYTES = 64 * 1024
_STALLED_S = 60.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """One request; `peer` is the caller's IP address. Names of headers are in lower case."""

    method: str
    path: str
    peer: str
    query: str = ""
    headers: tuple[tuple[str, str], ...] = ()

    @property
    def from_loopback(self) -> bool:
        return ipaddress.ip_address(self.peer.partition("%")[0]).is_loopback


Send = Callable[[bytes], Awaitable[None]]
"""Sends a piece of a body; returns when the caller has room for the next."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Response:
    """An answer. write: sends a body of unknown length piece by piece, instead of `body`."""

    status: HTTPStatus = HTTPStatus.OK
    body: bytes = b""
    content_type: str = "text/plain; charset=utf-8"
    headers: Mapping[str, str] = field(default_factory=dict)
    write: Callable[[Send], Awaitable[None]] | None = None

    @classmethod
    def text(cls, text: str, status: HTTPStatus = HTTPStatus.OK) -> "Response":
        return cls(status=status, body=text.encode())

    @classmethod
    def json(cls, value: object) -> "Response":
        body = json.dumps(value, indent=2, default=str).encode() + b"\n"
        return cls(body=body, content_type="application/json")


Handler = Callable[[Request], Awaitable[Response]]


@asynccontextmanager
async def http_server(
    host: str,
    port: int,
    handle: Handler,
    *,
    limits: ConnectionLimits = HTTP_LIMITS,
) -> AsyncIterator[tuple[int, Port]]:
    """Serve `handle` on host and port while the block runs.

    Yields the port number that is bound, and the `Port` that counts the connections. An empty host
    is every interface. Connections still open at the end are closed. Raises `ListenError`.
    """
    async with AsyncExitStack() as stack:
        try:
            sockets = stack.enter_context(mesh_listening.listening_on(host, port))
        except mesh_listening.ListenError as error:
            raise ListenError(
                f"can't {str(error).removeprefix('cannot ')}; "
                "stop what uses the port or choose another"
            ) from error
        server = _Server(handle, limits)
        accepting = mesh_listening.accepting(
            sockets,
            # Called for each connection, and there are none before `counts` is bound.
            lambda: server.protocol(counts),
            name=mesh_listening.format_address(sockets[0]),
            limits=limits,
        )
        counts = await stack.enter_async_context(accepting)
        stack.push_async_callback(server.stop)
        yield sockets[0].getsockname()[1], counts


class _Server:
    def __init__(self, handle: Handler, limits: ConnectionLimits) -> None:
        self._handle = handle
        self._limits = limits
        self._connections: set[asyncio.Task[None]] = set()

    def protocol(self, port: Port) -> asyncio.StreamReaderProtocol:
        reader = asyncio.StreamReader(limit=_READ_BYTES)
        return asyncio.StreamReaderProtocol(reader, partial(self._accepted, port))

    async def stop(self) -> None:
        for task in self._connections:
            task.cancel()
        if self._connections:
            await asyncio.wait(self._connections)

    def _accepted(
        self, port: Port, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        task = asyncio.create_task(self._connected(port, reader, writer), name="status connection")
        self._connections.add(task)
        task.add_done_callback(self._connections.discard)

    async def _connected(
        self, port: Port, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        peer = _without_mapping(writer.get_extra_info("peername")[0])
        try:
            await self._serve(reader, writer, peer)
        except _RequestTooSlow:
            port.record(Reason.NO_HEADERS, peer)
        except (ConnectionError, TimeoutError):
            log.debug("connection ended early")
        except Exception:
            # The boundary between one connection and the server: a body that failed midway.
            log.exception("a response failed midway, its connection is closed")
        finally:
            writer.close()
            with contextlib.suppress(ConnectionError):
                await writer.wait_closed()

    async def _serve(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, peer: str
    ) -> None:
        protocol = h11.Connection(h11.SERVER, max_incomplete_event_size=_MAX_HEADER_BYTES)
        while True:
            try:
                request = await _next_request(reader, protocol, self._limits)
            except h11.RemoteProtocolError as error:
                if protocol.our_state in (h11.IDLE, h11.SEND_RESPONSE):
                    status = HTTPStatus(error.error_status_hint)
                    await _send(writer, protocol, Response.text(f"{error}\n", status))
                return
            if request is None:
                return
            response = await _answer(self._handle, _parsed(request, peer))
            if writer.is_closing():
                return  # the client has gone
            await _send(writer, protocol, response)
            if protocol.our_state is not h11.DONE or protocol.their_state is not h11.DONE:
                return
            protocol.start_next_cycle()


class _RequestTooSlow(Exception):
    """A request began and did not end in time."""


def _without_mapping(host: str) -> str:
    """Returns an IPv4 address as such; a dual-stack socket has it as `::ffff:ADDRESS`."""
    return host.removeprefix("::ffff:") if "." in host else host


def _parsed(request: h11.Request, peer: str) -> Request:
    path, _, query = request.target.decode("ascii").partition("?")
    return Request(
        method=request.method.decode("ascii"),
        path=path,
        peer=peer,
        query=query,
        headers=tuple(
            (name.decode("ascii"), text.decode("latin-1")) for name, text in request.headers
        ),
    )


async def _answer(handle: Handler, request: Request) -> Response:
    try:
        return await handle(request)
    except Exception:
        # The boundary between one request and the server: the others must go on.
        log.exception("request failed", extra={"method": request.method, "path": request.path})
        return Response.text("internal error\n", HTTPStatus.INTERNAL_SERVER_ERROR)


async def _next_request(
    reader: asyncio.StreamReader, protocol: h11.Connection, limits: ConnectionLimits
) -> h11.Request | None:
    """Returns the next whole request, its body read and dropped; None when the client is done."""
    request: h11.Request | None = None
    body_bytes = 0
    loop = asyncio.get_running_loop()
    begun = bool(protocol.trailing_data[0])
    until = loop.time() + (limits.handshake_s if begun else limits.idle_s)
    while True:
        event = protocol.next_event()
        if event is h11.NEED_DATA:
            try:
                async with asyncio.timeout_at(until):
                    data = await reader.read(_READ_BYTES)
            except TimeoutError:
                if begun:
                    raise _RequestTooSlow from None
                raise
            protocol.receive_data(data)
            if not begun:
                begun, until = True, loop.time() + limits.handshake_s
        elif isinstance(event, h11.Request):
            request = event
        elif isinstance(event, h11.Data):
            body_bytes += len(event.data)
            if body_bytes > _MAX_BODY_BYTES:
                raise h11.RemoteProtocolError("body too large", error_status_hint=413)
        elif isinstance(event, h11.EndOfMessage):
            return request
        else:  # ConnectionClosed, or PAUSED after an upgrade, which is not served
            return None


async def _send(writer: asyncio.StreamWriter, protocol: h11.Connection, response: Response) -> None:
    async def send(event: h11.Event) -> None:
        if data := protocol.send(event):
            if writer.is_closing():
                raise ConnectionResetError("the connection was ended meanwhile")
            writer.write(data)
            async with asyncio.timeout(_STALLED_S):
                await writer.drain()

    async def send_body(data: bytes) -> None:
        await send(h11.Data(data=data))

    # Without a length h11 sends chunks, or to a client of HTTP/1.0 until the connection's end.
    length = {} if response.write is not None else {"content-length": str(len(response.body))}
    headers = {"content-type": response.content_type, **length, **response.headers}
    head = h11.Response(
        status_code=response.status,
        reason=response.status.phrase.encode(),
        headers=list(headers.items()),
    )
    if response.write is None:
        whole = (head, h11.Data(data=response.body), h11.EndOfMessage())
        writer.write(b"".join(protocol.send(event) or b"" for event in whole))
        async with asyncio.timeout(_STALLED_S):
            await writer.drain()
        return
    await send(head)
    await response.write(send_body)
    await send(h11.EndOfMessage())
