"""A port whose connections are served by the caller's asyncio protocol, such as HTTP's."""

import asyncio
import logging
import socket
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from typing import cast

from mesh_listening.acceptors._connection import Connection
from mesh_listening.acceptors._deadlines import Deadlines
from mesh_listening.acceptors._port import Port
from mesh_listening.limits._limits import ConnectionLimits
from mesh_listening.limits._refusals import Reason

log = logging.getLogger("mesh_listening")

_ENDS_OF_HEADERS = (b"\n\r\n", b"\n\n")


@asynccontextmanager
async def accepting(
    sockets: Sequence[socket.socket],
    protocol: Callable[[], asyncio.Protocol],
    *,
    name: str,
    limits: ConnectionLimits,
    watch_headers: bool = False,
    served_when_out: int = 0,
) -> AsyncIterator[Port]:
    """While the block runs, serve each connection by a protocol of its own.

    watch_headers: end connections of HTTP/1 whose headers take longer than `limits.handshake_s`,
    for protocols without such a time-out. Connections that are open at the end are aborted; a
    server that ends them gracefully does so before. served_when_out: so many connections are served
    also when this process can open no more files, for probes that are to learn of it.
    """
    server = _Server(
        sockets,
        protocol,
        name=name,
        limits=limits,
        watch_headers=watch_headers,
        served_when_out=served_when_out,
    )
    server.port.start()
    try:
        yield server.port
    finally:
        await server.close()


class _Server:
    def __init__(
        self,
        sockets: Sequence[socket.socket],
        protocol: Callable[[], asyncio.Protocol],
        *,
        name: str,
        limits: ConnectionLimits,
        watch_headers: bool,
        served_when_out: int,
    ) -> None:
        self.port = Port(
            sockets, self._serve, name=name, limits=limits, served_when_out=served_when_out
        )
        self.connections: set[_WatchedProtocol] = set()
        self.headers = Deadlines["_WatchedProtocol"](limits.handshake_s, self._headers_late)
        self.stalls = Deadlines["_WatchedProtocol"](limits.stalled_s, self._on_stall)
        self.watches_headers = watch_headers
        self._protocol = protocol

    def _serve(self, connection: Connection) -> None:
        self.port.run(self._hand_over(connection))

    async def _hand_over(self, connection: Connection) -> None:
        loop = asyncio.get_running_loop()
        accepted = connection.detach_socket()
        try:
            watched = _WatchedProtocol(self, connection, self._protocol())
            await loop.connect_accepted_socket(lambda: watched, accepted)
        except OSError:
            accepted.close()
            connection.release()
        except Exception:  # the caller's protocol may raise anything; only this connection ends
            log.exception("connection failed", extra={"listener": self.port.name})
            accepted.close()
            connection.release()
        except BaseException:
            accepted.close()
            connection.release()
            raise

    async def close(self) -> None:
        self.port.stop()
        await self.port.close()
        for watched in tuple(self.connections):
            watched.abort()
        await self.port.wait_gone()
        self.headers.clear()
        self.stalls.clear()

    def _headers_late(self, watched: "_WatchedProtocol") -> None:
        watched.connection.record(Reason.NO_HEADERS)
        watched.abort()

    def _on_stall(self, watched: "_WatchedProtocol") -> None:
        watched.connection.record(Reason.STALLED)
        watched.abort()


class _WatchedProtocol(asyncio.Protocol):
    """Calls the caller's protocol, and measures how long the client takes to send and to read."""

    __slots__ = ("_inside", "_server", "_tail", "_transport", "connection")

    def __init__(self, server: _Server, connection: Connection, inside: asyncio.Protocol) -> None:
        self.connection = connection
        self._server = server
        self._inside = inside
        self._tail = b""
        self._transport: asyncio.WriteTransport | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.WriteTransport, transport)  # uvloop's is no subclass
        self._server.connections.add(self)
        if self._server.watches_headers:
            self._server.headers.add(self)
        self._inside.connection_made(transport)

    def data_received(self, data: bytes) -> None:
        if self._server.watches_headers:
            self._time_headers(data)
        self._inside.data_received(data)

    def _time_headers(self, data: bytes) -> None:
        """Begin the time for headers with their first byte, and end it with their last.

        Bytes that follow in the same piece, such as a body, do not begin it again.
        """
        window = self._tail + data
        self._tail = window[-2:]
        if any(end in window for end in _ENDS_OF_HEADERS):
            self._tail = b""
            self._server.headers.discard(self)
        else:
            self._server.headers.add(self)

    def eof_received(self) -> bool | None:
        return self._inside.eof_received()

    def pause_writing(self) -> None:
        self._server.stalls.add(self)
        self._inside.pause_writing()

    def resume_writing(self) -> None:
        self._server.stalls.discard(self)
        self._inside.resume_writing()

    def connection_lost(self, error: Exception | None) -> None:
        server = self._server
        server.headers.discard(self)
        server.stalls.discard(self)
        server.connections.discard(self)
        self._transport = None
        try:
            self._inside.connection_lost(error)
        finally:
            self.connection.release()

    def abort(self) -> None:
        if self._transport is not None:
            self._transport.abort()
