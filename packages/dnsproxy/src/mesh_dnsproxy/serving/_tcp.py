"""Queries over TCP (RFC 7766): several on a connection, answered as answers come.

A connection may stay for as long as it asks. One that does not, also one that sends a byte now and
then, is closed after a time-out; when there are too many, the one that has been idle for longest
makes room.
"""

import asyncio
import logging
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import NamedTuple, cast

from mesh_dnsproxy._counts import Counts
from mesh_dnsproxy.answering._answerer import Answerer, Forward
from mesh_dnsproxy.forwarding._forwarder import Forwarder
from mesh_dnsproxy.forwarding._resolution import Transport

log = logging.getLogger(__name__)

_LENGTH_BYTES = 2
_SWEEP_S = 1.0
_BACKLOG = 128
_MOST_UNSENT_BYTES = 256 * 1024


class TcpConfig(NamedTuple):
    """How much clients may take.

    max_connections: at a time, on all addresses. idle_timeout_s: for a query to come whole, and for
    an answer to be taken. max_pipelined: queries of one connection that wait for their answer;
    beyond that no more is read from it.
    """

    max_connections: int = 150
    idle_timeout_s: float = 10.0
    max_pipelined: int = 64


class TcpListener:
    """Answers what comes over the connections of all addresses."""

    def __init__(
        self, config: TcpConfig, answerer: Answerer, forwarder: Forwarder, counts: Counts
    ) -> None:
        self.config = config
        self.answerer = answerer
        self.forwarder = forwarder
        self.counts = counts
        self._connections: dict[_Connection, None] = {}
        """The one that has been idle for longest first."""
        self._full = False

    @asynccontextmanager
    async def listening(self, sockets: tuple[socket.socket, ...]) -> AsyncIterator[None]:
        """Accept connections for as long as the block runs, then close them all."""
        loop = asyncio.get_running_loop()
        servers = [
            await loop.create_server(lambda: _Connection(self), sock=sock, backlog=_BACKLOG)
            for sock in sockets
        ]
        sweep = loop.call_later(_SWEEP_S, self._sweep)
        self._sweep_timer = sweep
        try:
            yield
        finally:
            self._sweep_timer.cancel()
            for server in servers:
                server.close()
            for connection in list(self._connections):
                connection.abort()
            for server in servers:
                await server.wait_closed()

    def admit(self, connection: "_Connection") -> bool:
        """Take a connection in, at the cost of an idle one if need be."""
        if len(self._connections) >= self.config.max_connections:
            if not self._full:
                self._full = True
                log.warning(
                    "too many TCP connections: the longest idle ones are closed",
                    extra={"max_connections": self.config.max_connections},
                )
            idle = next((each for each in self._connections if not each.pending), None)
            if idle is None:
                self.counts.tcp_refused += 1
                return False
            self.counts.tcp_closed_idle += 1
            idle.abort()
        self._connections[connection] = None
        self.counts.tcp_connections = len(self._connections)
        return True

    def used(self, connection: "_Connection") -> None:
        """Take notice that a connection is not idle."""
        if connection in self._connections:
            del self._connections[connection]
            self._connections[connection] = None

    def forget(self, connection: "_Connection") -> None:
        """Take notice that a connection has ended."""
        self._connections.pop(connection, None)
        self.counts.tcp_connections = len(self._connections)
        if self._full and len(self._connections) < self.config.max_connections // 2:
            self._full = False
            log.info("TCP connections have room again")

    def _sweep(self) -> None:
        loop = asyncio.get_running_loop()
        self._sweep_timer = loop.call_later(_SWEEP_S, self._sweep)
        limit = loop.time() - self.config.idle_timeout_s
        for connection in list(self._connections):
            if connection.used_at < limit and (not connection.pending or connection.clogged):
                self.counts.tcp_closed_idle += 1
                connection.abort()


class _Connection(asyncio.Protocol):
    """A client's connection."""

    def __init__(self, listener: TcpListener) -> None:
        self._listener = listener
        self._transport: asyncio.Transport | None = None
        self._received = bytearray()
        self._ended = False
        self._paused = False
        self._taking = False
        self.pending = 0
        self.clogged = False
        """The client does not take its answers."""
        self.used_at = 0.0

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)
        self._transport.set_write_buffer_limits(high=_MOST_UNSENT_BYTES)
        self.used_at = asyncio.get_running_loop().time()
        if not self._listener.admit(self):
            self._transport.abort()

    def data_received(self, data: bytes) -> None:
        self._received += data
        self._take()

    def eof_received(self) -> bool:
        """Keep the other direction open for the answers that are still to come."""
        self._ended = True
        self._close_if_done()
        return True

    def connection_lost(self, exc: Exception | None) -> None:
        del exc
        self._transport = None
        self._received.clear()
        self._listener.forget(self)

    def pause_writing(self) -> None:
        self.clogged = True
        self._regulate()

    def resume_writing(self) -> None:
        self.clogged = False
        self._take()

    def abort(self) -> None:
        """End the connection; answers that are still to come have nowhere to go."""
        transport, self._transport = self._transport, None
        self._listener.forget(self)
        if transport is not None:
            transport.abort()

    def _take(self) -> None:
        """Answer the queries that are whole, as long as there may be more.

        An answer may come at once, while its query is still being taken.
        """
        if self._taking:
            return
        self._taking = True
        try:
            self._take_whole()
        finally:
            self._taking = False
        self._regulate()
        self._close_if_done()

    def _take_whole(self) -> None:
        received = self._received
        position = 0
        most = self._listener.config.max_pipelined
        while self._transport is not None and self.pending < most and not self.clogged:
            start = position + _LENGTH_BYTES
            end = start + int.from_bytes(received[position:start], "big")
            if start > len(received) or end > len(received):
                break
            packet = bytes(received[start:end])
            position = end
            self._used()
            self._answer(packet)
        del received[:position]

    def _answer(self, packet: bytes) -> None:
        answerer = self._listener.answerer
        try:
            outcome = answerer.answer(packet, over_tcp=True)
            match outcome:
                case None:
                    self.abort()  # it will not say anything better
                case Forward():
                    self.pending += 1
                    self._listener.forwarder.resolve(outcome, Transport.TCP, self._answered)
                case _:
                    self._send(outcome)
        except Exception as error:  # noqa: BLE001 - somebody waits for an answer
            failure = answerer.failure(packet, error)
            if failure is not None:
                self._send(failure)

    def _answered(self, reply: bytes) -> None:
        self.pending -= 1
        if self._transport is None:
            return
        self._used()
        self._send(reply)
        self._take()

    def _send(self, answer: bytes) -> None:
        if self._transport is not None:
            self._transport.write(len(answer).to_bytes(_LENGTH_BYTES, "big") + answer)

    def _used(self) -> None:
        self.used_at = asyncio.get_running_loop().time()
        self._listener.used(self)

    def _regulate(self) -> None:
        """Read on only while more may be asked."""
        if self._transport is None:
            return
        full = self.clogged or self.pending >= self._listener.config.max_pipelined
        if full and not self._paused:
            self._paused = True
            self._transport.pause_reading()
        elif not full and self._paused:
            self._paused = False
            self._transport.resume_reading()

    def _close_if_done(self) -> None:
        idle = not self.pending and not self._taking
        if self._ended and idle and self._transport is not None:
            self._transport.close()
