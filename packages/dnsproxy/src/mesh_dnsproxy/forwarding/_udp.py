"""Asks servers over UDP: each question from a random port with a random id.

A socket is connected to one server, so the kernel drops what others send, and a server that is not
there is known at once. While few questions are open, each has a socket and with it a port of its
own; when many are, they share.
"""

import asyncio
import os
import random
import socket
from collections.abc import Callable
from typing import Final

from mesh_dnsproxy._counts import Counts, Dropped
from mesh_dnsproxy.forwarding._resolv_conf import Upstream
from mesh_dnsproxy.message._reply import Verdict, classify

_READS_AT_ONCE = 64
_LARGEST = 65535
_IDS_OF_A_SOCKET = 4096
"""A small part of the 65536 ids, so that a random one is nearly always free."""


class Exchange:
    """A question to a server that waits for the reply, until it is closed."""

    __slots__ = ("_channel", "on_error", "on_reply", "packet", "question")

    def __init__(
        self,
        channel: "_Channel",
        packet: bytes,
        question: bytes,
        on_reply: Callable[[Verdict, bytes], None],
        on_error: Callable[[], None],
    ) -> None:
        self._channel = channel
        self.packet: Final = packet
        self.question: Final = question
        self.on_reply: Final = on_reply
        self.on_error: Final = on_error

    def close(self) -> None:
        """Ignore a later reply; may be called again."""
        self._channel.forget(self)


class UdpUpstreams:
    """Asks servers over UDP."""

    def __init__(self, counts: Counts, *, max_sockets: int) -> None:
        self._counts = counts
        self._max_sockets = max_sockets
        self._channels: dict[Upstream, list[_Channel]] = {}
        self._open = 0
        self._own_addresses: set[tuple[str, int]] = set()
        self._buffer = bytearray(_LARGEST)

    @property
    def open_sockets(self) -> int:
        """The number of open sockets."""
        return self._open

    def owns(self, host: str, port: int) -> bool:
        """Return whether a packet from this address is a question that this server sent."""
        return (host, port) in self._own_addresses

    def ask(
        self,
        server: Upstream,
        packet: bytes,
        question: bytes,
        *,
        on_reply: Callable[[Verdict, bytes], None],
        on_error: Callable[[], None],
    ) -> Exchange:
        """Send a question; raises OSError when it can't be sent."""
        channel = self._channel(server)
        try:
            identity = channel.free_id()
            exchange = Exchange(channel, identity + packet[2:], question, on_reply, on_error)
            channel.send(exchange)
        except OSError:
            channel.close_if_idle()
            raise
        return exchange

    def close(self) -> None:
        """Close all sockets."""
        for channels in list(self._channels.values()):
            for channel in list(channels):
                channel.close()

    def _channel(self, server: Upstream) -> "_Channel":
        channels = self._channels.setdefault(server, [])
        if self._open >= self._max_sockets and channels:
            channel = random.choice(channels)
            if len(channel.waiting) < _IDS_OF_A_SOCKET:
                return channel
        channel = _Channel(self, server, _connected(server))
        channels.append(channel)
        self._open += 1
        self._own_addresses.add(channel.own_address)
        return channel

    def drop(self, channel: "_Channel") -> None:
        """Remove a channel that was closed."""
        channels = self._channels[channel.server]
        channels.remove(channel)
        if not channels:
            del self._channels[channel.server]
        self._open -= 1
        self._own_addresses.discard(channel.own_address)

    def read(self, channel: "_Channel") -> None:
        """Read the replies that have arrived."""
        buffer = self._buffer
        for _ in range(_READS_AT_ONCE):
            try:
                size = channel.socket.recv_into(buffer)
            except (BlockingIOError, InterruptedError):
                return
            except OSError:
                for exchange in list(channel.waiting.values()):
                    channel.forget(exchange)
                    exchange.on_error()
                return
            reply = bytes(memoryview(buffer)[:size])
            exchange_or_none = channel.waiting.get(reply[:2])
            verdict = Verdict.FOREIGN
            if exchange_or_none is not None:
                verdict = classify(reply, exchange_or_none.packet, exchange_or_none.question)
            if exchange_or_none is None or verdict is Verdict.FOREIGN:
                self._counts.dropped[Dropped.FOREIGN_REPLY] += 1
                continue
            channel.forget(exchange_or_none)
            exchange_or_none.on_reply(verdict, reply)
            if channel.closed:
                return


class _Channel:
    """A connected socket and the open questions on it; it closes with the last of them."""

    __slots__ = ("_loop", "_upstreams", "closed", "own_address", "server", "socket", "waiting")

    def __init__(self, upstreams: UdpUpstreams, server: Upstream, sock: socket.socket) -> None:
        self._upstreams = upstreams
        self._loop = asyncio.get_running_loop()
        self.server = server
        self.socket = sock
        self.own_address: tuple[str, int] = sock.getsockname()[:2]
        self.waiting: dict[bytes, Exchange] = {}
        self.closed = False
        self._loop.add_reader(sock, upstreams.read, self)

    def free_id(self) -> bytes:
        """Return a random id that no open question has."""
        identity = os.urandom(2)
        while identity in self.waiting:
            identity = os.urandom(2)
        return identity

    def send(self, exchange: Exchange) -> None:
        """Send a question and wait for its reply; raises OSError."""
        self.socket.send(exchange.packet)
        self.waiting[exchange.packet[:2]] = exchange

    def forget(self, exchange: Exchange) -> None:
        """Ignore the reply with this id."""
        identity = exchange.packet[:2]
        if self.waiting.get(identity) is exchange:
            del self.waiting[identity]
            self.close_if_idle()

    def close_if_idle(self) -> None:
        """Close when no question is open."""
        if not self.waiting:
            self.close()

    def close(self) -> None:
        """Close the socket."""
        if not self.closed:
            self.closed = True
            self.waiting.clear()
            self._loop.remove_reader(self.socket)
            self.socket.close()
            self._upstreams.drop(self)


def _connected(server: Upstream) -> socket.socket:
    family, kind, protocol, _, address = numeric_address(server, socket.SOCK_DGRAM)
    sock = socket.socket(family, kind, protocol)
    try:
        sock.setblocking(False)
        sock.connect(address)  # which chooses a random port
    except BaseException:
        sock.close()
        raise
    return sock


def numeric_address(
    server: Upstream, kind: socket.SocketKind
) -> tuple[int, socket.SocketKind, int, str, tuple[str, int] | tuple[str, int, int, int]]:
    """Return the address for the socket module; raises OSError, as for an unknown interface."""
    flags = socket.AI_NUMERICHOST | socket.AI_NUMERICSERV
    found = socket.getaddrinfo(server.host, server.port, type=kind, flags=flags)
    return found[0]  # type: ignore[return-value]
