"""Queries over UDP: a callback of the event loop reads the socket, without an asyncio protocol.

Measured faster than a datagram protocol of uvloop, and than receiving into a buffer; see
docs/decisions.
"""

import asyncio
import logging
import socket
import struct
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from mesh_dnsproxy._counts import Counts, Dropped
from mesh_dnsproxy.answering._answerer import Answerer, Forward
from mesh_dnsproxy.forwarding._forwarder import Forwarder
from mesh_dnsproxy.forwarding._resolution import Transport
from mesh_dnsproxy.forwarding._shares import Client
from mesh_dnsproxy.message._answer import error_answer
from mesh_dnsproxy.message._codes import SERVFAIL
from mesh_dnsproxy.message._query import MAX_QUERY_BYTES

log = logging.getLogger(__name__)

_PACKETS_AT_ONCE = 64
"""Then the event loop runs the rest: timers, TCP, replies of upstreams, compiling a table."""
_MOST_UNSENT = 1024
_PACKET_INFO_V4 = struct.Struct("=i4s4s")
_CONTROL_BYTES = 128

Peer = tuple[str, int] | tuple[str, int, int, int]
"""The peer's address as in the socket module: IPv4, or IPv6 with flow info and scope."""


class UdpListener:
    """Answers the queries that one socket receives."""

    def __init__(
        self, sock: socket.socket, answerer: Answerer, forwarder: Forwarder, counts: Counts
    ) -> None:
        self._socket = sock
        self._answerer = answerer
        self._forwarder = forwarder
        self._counts = counts
        self._unsent: deque[Callable[[], None]] = deque()
        self._closed = False

    @contextmanager
    def listening(self) -> Iterator[None]:
        """Read queries while the block runs; those that are open at the end are still answered."""
        loop = asyncio.get_running_loop()
        if _is_wildcard(self._socket):
            _receive_destinations(self._socket)
            loop.add_reader(self._socket, self._drain_any)
        else:
            loop.add_reader(self._socket, self._drain)
        try:
            yield
        finally:
            loop.remove_reader(self._socket)

    def close(self) -> None:
        """Send no further answers."""
        self._closed = True
        if self._unsent:
            self._unsent.clear()
            asyncio.get_running_loop().remove_writer(self._socket)

    def _drain(self) -> None:
        receive, send = self._socket.recvfrom, self._socket.sendto
        answerer = self._answerer
        try:
            for _ in range(_PACKETS_AT_ONCE):
                packet, peer = receive(MAX_QUERY_BYTES)
                kept = answerer.kept.get(packet[2:])
                if kept is None:
                    self._answer(packet, peer, None)
                    continue
                following, tally = kept
                tally[0] += 1
                answer = packet[:2] + following()
                try:
                    send(answer, peer)
                except OSError:
                    self._send(answer, peer, None)
        except (BlockingIOError, InterruptedError):
            pass
        except OSError as error:  # of a packet sent before, as some kernels report it
            log.debug("receiving failed", extra={"error": str(error)})

    def _drain_any(self) -> None:
        """Like `_drain`, for a wildcard address: answers leave from the address that was asked."""
        try:
            for _ in range(_PACKETS_AT_ONCE):
                packet, control, _, peer = self._socket.recvmsg(MAX_QUERY_BYTES, _CONTROL_BYTES)
                kept = self._answerer.kept.get(packet[2:])
                source = _source(control)
                if kept is None:
                    self._answer(packet, peer, source)
                    continue
                following, tally = kept
                tally[0] += 1
                self._send(packet[:2] + following(), peer, source)
        except (BlockingIOError, InterruptedError):
            pass
        except OSError as error:
            log.debug("receiving failed", extra={"error": str(error)})

    def _answer(self, packet: bytes, peer: Peer, source: "_Control | None") -> None:
        """Answer a query without a kept answer. Never raises, so that the next query is read."""
        try:
            outcome = self._answerer.answer(packet, over_tcp=False)
            match outcome:
                case None:
                    pass
                case Forward():
                    if self._forwarder.owns(*peer[:2]):
                        self._forwarder.count_own_query()
                        self._send(error_answer(outcome.query, SERVFAIL), peer, source)
                        return
                    self._forwarder.resolve(
                        outcome,
                        Transport.UDP,
                        lambda reply: self._send(reply, peer, source),
                        client=Client(*peer[:2]),
                    )
                case _:
                    self._send(outcome, peer, source)
        except Exception as error:  # noqa: BLE001 - a client waits for an answer
            failure = self._answerer.failure(packet, error)
            if failure is not None:
                self._send(failure, peer, source)

    def _send(self, answer: bytes, peer: Peer, source: "_Control | None") -> None:
        if self._closed:
            return
        try:
            if source is None:
                self._socket.sendto(answer, peer)
            else:
                self._socket.sendmsg((answer,), source, 0, peer)
        except (BlockingIOError, InterruptedError):
            self._send_later(answer, peer, source)
        except OSError as error:
            self._counts.dropped[Dropped.NOT_SENT] += 1
            log.debug("answer not sent", extra={"peer": str(peer), "error": str(error)})

    def _send_later(self, answer: bytes, peer: Peer, source: "_Control | None") -> None:
        if len(self._unsent) >= _MOST_UNSENT:
            self._counts.dropped[Dropped.NOT_SENT] += 1
            return
        if not self._unsent:
            asyncio.get_running_loop().add_writer(self._socket, self._send_unsent)
        self._unsent.append(lambda: self._send(answer, peer, source))

    def _send_unsent(self) -> None:
        waiting, self._unsent = self._unsent, deque()
        asyncio.get_running_loop().remove_writer(self._socket)
        for send in waiting:
            send()


_Control = list[tuple[int, int, bytes]]


def _is_wildcard(sock: socket.socket) -> bool:
    return sock.getsockname()[0] in ("0.0.0.0", "::")  # noqa: S104 - a comparison


def _receive_destinations(sock: socket.socket) -> None:
    if sock.family == socket.AF_INET6:
        sock.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_RECVPKTINFO, 1)
    else:
        sock.setsockopt(socket.IPPROTO_IP, getattr(socket, "IP_PKTINFO", 8), 1)


def _source(control: list[tuple[int, int, bytes]]) -> _Control | None:
    """Return the control message by which an answer is sent from the address that was asked."""
    for level, kind, data in control:
        if level == socket.IPPROTO_IP and len(data) >= _PACKET_INFO_V4.size:
            _, _, destination = _PACKET_INFO_V4.unpack_from(data)
            return [(level, kind, _PACKET_INFO_V4.pack(0, destination, bytes(4)))]
        if level == socket.IPPROTO_IPV6:
            return [(level, kind, data)]
    return None
