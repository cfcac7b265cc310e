"""A small HTTP/1.1 server: h11 parses the protocol, this module reads and writes the sockets.

h11 rather than a web framework because a framework alone takes a tenth of the memory that a whole
agent may use; the figures are in docs/decisions/0001-libraries.md.
"""

import asyncio
import contextlib
import logging
from collections.abc import AsyncIterator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from functools import partial
from http import HTTPStatus
from typing import NamedTuple

import h11

import mesh_listening
from mesh_listening import (
    HTTP_LIMITS,
    SERVED_WHEN_OUT_OF_FILES,
    ConnectionLimits,
    Port,
    Reason,
)
from mesh_status_server._errors import ListenError
from mesh_status_server.http._compression import GzipSend, takes_gzip
from mesh_status_server.http._messages import (
    PLAIN_TEXT,
    Handler,
    Reply,
    Request,
    Response,
    Send,
    Streamed,
)

log = logging.getLogger("mesh_status_server")

_READ_BYTES = 16 * 1024
_MAX_HEADER_BYTES = 16 * 1024
_MAX_BODY_BYTES = 64 * 1024
_STALLED_S = 60.0
_FAILED = "request failed"
_INTERNAL_ERROR = Response.text("internal error\n", HTTPStatus.INTERNAL_SERVER_ERROR)


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
            served_when_out=SERVED_WHEN_OUT_OF_FILES,
        )
        counts = await stack.enter_async_context(accepting)
        stack.push_async_callback(server.stop)
        yield sockets[0].getsockname()[1], counts


class _Ends(NamedTuple):
    """The IP addresses of a connection's two ends."""

    peer: str
    own: str


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
        peername, sockname = (writer.get_extra_info(end) for end in ("peername", "sockname"))
        ends = _Ends(_without_mapping(peername[0]), _without_mapping(sockname[0]))
        try:
            await self._serve(reader, writer, ends)
        except _RequestTooSlow:
            port.record(Reason.NO_HEADERS, ends.peer)
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
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, ends: _Ends
    ) -> None:
        protocol = h11.Connection(h11.SERVER, max_incomplete_event_size=_MAX_HEADER_BYTES)
        while True:
            try:
                request = await _next_request(reader, protocol, ends, self._limits)
            except h11.RemoteProtocolError as error:
                if protocol.our_state in (h11.IDLE, h11.SEND_RESPONSE):
                    status = HTTPStatus(error.error_status_hint)
                    await _Answering(writer, protocol, None).whole(
                        Response.text(f"{error}\n", status)
                    )
                return
            if request is None:
                return
            reply = await _reply(self._handle, request)
            if writer.is_closing():
                return  # the client has gone
            await _Answering(writer, protocol, request).send(reply)
            if protocol.our_state is not h11.DONE or protocol.their_state is not h11.DONE:
                return
            protocol.start_next_cycle()


class _RequestTooSlow(Exception):
    """A request began and did not end in time."""


class _HeadIsAll(Exception):
    """The request was HEAD, and its answer is complete."""


def _without_mapping(host: str) -> str:
    """Return an IPv4 address as such; a dual-stack socket has it as `::ffff:ADDRESS`."""
    return host.removeprefix("::ffff:") if "." in host else host


def _parsed(request: h11.Request, ends: _Ends, body: bytes) -> Request:
    path, _, query = request.target.decode("ascii").partition("?")
    return Request(
        method=request.method.decode("ascii"),
        path=path,
        peer=ends.peer,
        own_address=ends.own,
        query=query,
        headers=tuple(
            (name.decode("ascii"), text.decode("latin-1")) for name, text in request.headers
        ),
        body=body,
    )


async def _reply(handle: Handler, request: Request) -> Reply:
    try:
        return await handle(request)
    except Exception:
        # The boundary between one request and the server: the others must go on.
        log.exception(_FAILED, extra={"method": request.method, "path": request.path})
        return _INTERNAL_ERROR


async def _next_request(
    reader: asyncio.StreamReader, protocol: h11.Connection, ends: _Ends, limits: ConnectionLimits
) -> Request | None:
    """Return the next whole request; None when the client is done."""
    request: h11.Request | None = None
    body = bytearray()
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
            body += event.data
            if len(body) > _MAX_BODY_BYTES:
                raise h11.RemoteProtocolError("body too large", error_status_hint=413)
        elif isinstance(event, h11.EndOfMessage):
            return None if request is None else _parsed(request, ends, bytes(body))
        else:  # ConnectionClosed, or PAUSED after an upgrade, which is not served
            return None


class _Answering:
    """One answer on its way. request: None for an answer to what was no request."""

    def __init__(
        self, writer: asyncio.StreamWriter, protocol: h11.Connection, request: Request | None
    ) -> None:
        self._writer = writer
        self._protocol = protocol
        self._request = request
        self._compress = False
        self._send: Send | None = None

    async def send(self, reply: Reply) -> None:
        """Send the whole answer."""
        if isinstance(reply, Response):
            await self.whole(reply)
        else:
            await self._streamed(reply)

    async def whole(self, response: Response) -> None:
        """Send an answer at once."""
        headers = {"content-length": str(len(response.body)), **response.headers}
        head = _head(response.status, response.content_type, headers)
        body = b"" if self._head_only else response.body
        whole = (head, h11.Data(data=body), h11.EndOfMessage())
        self._writer.write(b"".join(self._protocol.send(event) or b"" for event in whole))
        await self._drained()

    async def _streamed(self, reply: Streamed) -> None:
        self._compress = reply.compress
        try:
            await reply.write(self._start)
            if self._send is None:
                raise RuntimeError("an answer ended before it began")
        except _HeadIsAll:
            pass
        except (ConnectionError, TimeoutError):
            raise
        except Exception:
            # The boundary between one request and the server, if there is still time to tell.
            if self._send is not None or self._request is None:
                raise
            request = self._request
            log.exception(_FAILED, extra={"method": request.method, "path": request.path})
            await self.whole(_INTERNAL_ERROR)
            return
        if isinstance(self._send, GzipSend):
            await self._send.finish()
        await self._event(h11.EndOfMessage())

    async def _start(
        self,
        *,
        content_type: str = PLAIN_TEXT,
        status: HTTPStatus | int = HTTPStatus.OK,
        headers: Mapping[str, str] = {},
    ) -> Send:
        # Without a length h11 sends chunks, or to a client of HTTP/1.0 until the connection's end.
        headers = dict(headers)
        send: Send = self._piece
        if self._compress:
            headers["vary"] = ", ".join(filter(None, (headers.get("vary"), "accept-encoding")))
            if self._request is not None and takes_gzip(self._request.header("accept-encoding")):
                headers["content-encoding"] = "gzip"
                send = GzipSend(send)
        await self._event(_head(status, content_type, headers))
        if self._head_only:
            raise _HeadIsAll
        self._send = send
        return send

    @property
    def _head_only(self) -> bool:
        return self._request is not None and self._request.method == "HEAD"

    async def _piece(self, data: bytes) -> None:
        if data:
            await self._event(h11.Data(data=data))

    async def _event(self, event: h11.Event) -> None:
        if data := self._protocol.send(event):
            if self._writer.is_closing():
                raise ConnectionResetError("the connection was ended meanwhile")
            self._writer.write(data)
            await self._drained()

    async def _drained(self) -> None:
        async with asyncio.timeout(_STALLED_S):
            await self._writer.drain()


def _head(status: HTTPStatus | int, content_type: str, headers: Mapping[str, str]) -> h11.Response:
    try:
        reason = HTTPStatus(status).phrase
    except ValueError:  # an application may have a number of its own
        reason = ""
    named = {"content-type": content_type, **headers}
    return h11.Response(
        status_code=int(status), reason=reason.encode(), headers=list(named.items())
    )
