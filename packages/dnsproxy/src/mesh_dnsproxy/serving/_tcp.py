"""Queries over TCP (RFC 7766): several on a connection, each answered when its answer is there.

A connection stays open while it sends queries. One that does not, or only a byte now and then, is
closed after a time-out. When there are too many, one of the address that has the most is closed:
the one that was idle for longest, or else the one that has waited for longest.
"""

import asyncio
import logging
import socket
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial
from typing import NamedTuple, cast

from mesh_dnsproxy._counts import Counts, Dropped
from mesh_dnsproxy.answering._answerer import Answerer, Forward
from mesh_dnsproxy.forwarding._forwarder import Forwarder
from mesh_dnsproxy.forwarding._questions import Waiter
from mesh_dnsproxy.forwarding._resolution import Transport
from mesh_dnsproxy.forwarding._shares import OURSELVES, Client
from mesh_dnsproxy.message._query import MAX_QUERY_BYTES

log = logging.getLogger(__name__)

_LENGTH_BYTES = 2
_SWEEP_S = 1.0
_BACKLOG = 128
_NEW_FOR_S = 1.0
_CLOGGED_BYTES = 256 * 1024
"""With so many unsent, no more queries are answered."""
_MOST_UNSENT_BYTES = 512 * 1024
"""Replies of upstreams still come when a connection is clogged; with so many it is closed."""


class TcpConfig(NamedTuple):
    """The limits for clients.

    max_connections: at a time, on all addresses. idle_timeout_s: for a query to arrive whole, and
    for an answer to be read. max_pipelined: queries of one connection that wait for their answer;
    with so many, no more is read from it.
    """

    max_connections: int = 150
    idle_timeout_s: float = 10.0
    max_pipelined: int = 64


class TcpListener:
    """Answers the queries on the connections of all addresses."""

    def __init__(
        self, config: TcpConfig, answerer: Answerer, forwarder: Forwarder, counts: Counts
    ) -> None:
        self.config = config
        self.answerer = answerer
        self.forwarder = forwarder
        self.counts = counts
        self._connections: dict[_Connection, None] = {}
        """In the order of their last query or answer, the oldest first."""
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

    def admit(self, connection: "_Connection") -> None:
        """Admit a connection; if there are too many, another one is closed."""
        self._connections[connection] = None
        if len(self._connections) > self.config.max_connections:
            if not self._full:
                self._full = True
                log.warning(
                    "too many TCP connections: each new one closes the one that has waited longest "
                    "of the address that has the most",
                    extra={"max_connections": self.config.max_connections},
                )
            self._close_one()
        self.counts.tcp_connections = len(self._connections)

    def _close_one(self) -> None:
        """Close a connection of the address that has the most."""
        by_address = Counter(each.client.address for each in self._connections)
        ((largest, _),) = by_address.most_common(1)
        theirs = [each for each in self._connections if each.client.address == largest]
        # A client that has just connected has not had the time to ask.
        idle_since = asyncio.get_running_loop().time() - _NEW_FOR_S
        closed = min(
            theirs,
            key=lambda each: (
                bool(each.pending) or each.used_at > idle_since,
                each.waiting_since,
            ),
        )
        if closed.pending:
            self.counts.gave_way += 1
        else:
            self.counts.tcp_closed_idle += 1
        closed.abort()

    def on_use(self, connection: "_Connection") -> None:
        """A connection sent a query, or got an answer."""
        if connection in self._connections:
            del self._connections[connection]
            self._connections[connection] = None

    def remove(self, connection: "_Connection") -> None:
        """A connection has ended."""
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
        self._answering = False
        self.client = OURSELVES
        self._asked = 0
        self._pending: dict[int, tuple[float, Waiter | None]] = {}
        """The queries that wait for an upstream, the oldest first: since when."""
        self.clogged = False
        """The client does not read its answers."""
        self.used_at = 0.0

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)
        self._transport.set_write_buffer_limits(high=_CLOGGED_BYTES)
        self.used_at = asyncio.get_running_loop().time()
        peer = transport.get_extra_info("peername")
        if peer is not None:  # None: it has ended already
            self.client = Client(*peer[:2])
        self._listener.admit(self)

    @property
    def pending(self) -> int:
        """The number of queries that wait for an upstream."""
        return len(self._pending)

    @property
    def waiting_since(self) -> float:
        """When the oldest query came that still waits; if none does, the last use."""
        return next(iter(self._pending.values()))[0] if self._pending else self.used_at

    def data_received(self, data: bytes) -> None:
        self._received += data
        self._on_answer_received()

    def eof_received(self) -> bool:
        """Keep the other direction open for the answers that are not sent yet."""
        self._ended = True
        self._close_if_done()
        return True

    def connection_lost(self, exc: Exception | None) -> None:
        del exc
        self._transport = None
        self._end()

    def pause_writing(self) -> None:
        self.clogged = True
        self._pause_or_resume()

    def resume_writing(self) -> None:
        self.clogged = False
        self._on_answer_received()

    def abort(self) -> None:
        """End the connection; answers that are not sent yet are dropped."""
        transport, self._transport = self._transport, None
        self._end()
        if transport is not None:
            transport.abort()

    def _end(self) -> None:
        """Wait for no answers any more."""
        self._received.clear()
        for _, waiter in self._pending.values():
            if waiter is not None:
                self._listener.forwarder.withdraw(waiter)
        self._pending.clear()
        self._listener.remove(self)

    def _on_answer_received(self) -> None:
        """Answer the queries that have arrived whole, up to `max_pipelined`.

        An answer may be there at once, which calls this again.
        """
        if self._answering:
            return
        self._answering = True
        try:
            self._answer_whole_queries()
        finally:
            self._answering = False
        self._pause_or_resume()
        self._close_if_done()

    def _answer_whole_queries(self) -> None:
        received = self._received
        position = 0
        most = self._listener.config.max_pipelined
        while self._transport is not None and self.pending < most and not self.clogged:
            start = position + _LENGTH_BYTES
            if start > len(received):
                break
            length = int.from_bytes(received[position:start], "big")
            if length > MAX_QUERY_BYTES:
                self._listener.counts.dropped[Dropped.TOO_LARGE] += 1
                self.abort()
                return
            end = start + length
            if end > len(received):
                break
            packet = bytes(received[start:end])
            position = end
            self._on_use()
            self._answer(packet)
        del received[:position]

    def _answer(self, packet: bytes) -> None:
        answerer = self._listener.answerer
        try:
            outcome = answerer.answer(packet, over_tcp=True)
            match outcome:
                case None:
                    self.abort()  # what follows can't be queries either
                case Forward():
                    self._forward(outcome)
                case _:
                    self._send(outcome)
        except Exception as error:  # noqa: BLE001 - a client waits for an answer
            failure = answerer.failure(packet, error)
            if failure is not None:
                self._send(failure)

    def _forward(self, forward: Forward) -> None:
        self._asked += 1
        number = self._asked
        self._pending[number] = self.used_at, None
        waiter = self._listener.forwarder.resolve(
            forward, Transport.TCP, partial(self._on_answer, number), client=self.client
        )
        if number in self._pending:
            self._pending[number] = self.used_at, waiter

    def _on_answer(self, number: int, reply: bytes) -> None:
        self._pending.pop(number, None)
        if self._transport is None:
            return
        self._on_use()
        self._send(reply)
        self._on_answer_received()

    def _send(self, answer: bytes) -> None:
        if self._transport is None:
            return
        self._transport.write(len(answer).to_bytes(_LENGTH_BYTES, "big") + answer)
        if self._transport.get_write_buffer_size() > _MOST_UNSENT_BYTES:
            self._listener.counts.dropped[Dropped.NOT_SENT] += 1
            self.abort()

    def _on_use(self) -> None:
        self.used_at = asyncio.get_running_loop().time()
        self._listener.on_use(self)

    def _pause_or_resume(self) -> None:
        """Pause reading while `max_pipelined` queries wait, or the client does not read."""
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
        idle = not self.pending and not self._answering
        if self._ended and idle and self._transport is not None:
            self._transport.close()
