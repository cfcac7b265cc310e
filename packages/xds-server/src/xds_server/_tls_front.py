"""TLS in front of gRPC, because gRPC's own cannot take client certificates as an option.

Its server either demands a certificate of every client or asks none, but one port serves both
callers with a token and callers with a certificate. So TLS ends here, and the bytes go on to a
plaintext port on loopback, over a socket whose address says to `peer_of` who is behind it.
"""

from __future__ import annotations

import asyncio
import logging
import socket
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any, cast

from ._admission import Peer
from ._background import in_background
from ._errors import ListenError
from ._listeners import TlsListener
from ._peers import known_peer
from ._signal import Signal

log = logging.getLogger(__name__)

_LOOPBACK = "127.0.0.1"
_PAUSE_WHEN_OUT_OF_FILES_S = 0.1
_RECORD_BYTES = 16 * 1024
"""The most that one TLS record takes. More at once is encrypted into a buffer that stays as large
as it once was for as long as the connection is there: 85 kB of memory for 100 kB sent."""
_MOST_WAITING_BYTES = 4 * _RECORD_BYTES
"""Encrypted but not yet taken by the socket; beyond that a slow client's server is not read on."""


@asynccontextmanager
async def tls_front(listener: TlsListener, inner_port: int) -> AsyncIterator[str]:
    """Listen with TLS and forward to `inner_port` on loopback. Yields the address."""
    listening = listen_tcp(listener.host, listener.port, backlog=listener.backlog)
    with listening:
        async with in_background(_accept(listening, listener, inner_port), name="tls front"):
            host, port = listening.getsockname()[:2]
            yield f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def listen_tcp(host: str, port: int, *, backlog: int) -> socket.socket:
    """A listening socket; an empty host means every address. Raises `ListenError`."""
    try:
        if host == "" and socket.has_dualstack_ipv6():
            listening = socket.create_server(
                ("", port), family=socket.AF_INET6, backlog=backlog, dualstack_ipv6=True
            )
        else:
            family = socket.AF_INET6 if ":" in host else socket.AF_INET
            listening = socket.create_server((host, port), family=family, backlog=backlog)
    except OSError as error:
        reason = error.strerror or str(error)
        raise ListenError(f"cannot listen on {host}:{port}: {reason}") from error
    listening.setblocking(False)
    return listening


async def _accept(listening: socket.socket, listener: TlsListener, inner_port: int) -> None:
    loop = asyncio.get_running_loop()
    async with asyncio.TaskGroup() as group:
        while True:
            try:
                accepted, _ = await loop.sock_accept(listening)
            except OSError as error:
                log.warning("cannot accept connections", extra={"reason": error.strerror})
                await asyncio.sleep(_PAUSE_WHEN_OUT_OF_FILES_S)
                continue
            group.create_task(_serve(accepted, listener, inner_port), name="tls connection")


async def _serve(accepted: socket.socket, listener: TlsListener, inner_port: int) -> None:
    loop = asyncio.get_running_loop()
    accepted.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    address = _address(accepted)
    outer = _Pipe()
    try:
        # uvloop returns its own TLS protocol here, not the one it was given.
        transport, _ = await loop.connect_accepted_socket(
            lambda: outer,
            accepted,
            ssl=listener.context(),
            ssl_handshake_timeout=listener.handshake_timeout_s,
        )
    except (OSError, ssl.SSLError) as error:
        accepted.close()
        # Who hangs up without a word, as health checks do, is nobody's concern.
        level = logging.INFO if str(error) else logging.DEBUG
        reason = str(error) or "the client closed the connection"
        log.log(level, "TLS handshake failed", extra={"address": address, "reason": reason})
        return
    except Exception:  # The caller's context() may raise anything.
        accepted.close()
        log.exception("no TLS context for a new connection", extra={"address": address})
        return
    try:
        transport.set_write_buffer_limits(high=_MOST_WAITING_BYTES)
        peer = Peer(
            address=address,
            encrypted=True,
            certificate_chain=_verified_chain(transport.get_extra_info("ssl_object")),
        )
        await _forward(outer, peer, inner_port)
    except OSError as error:
        log.warning("cannot reach the server behind TLS", extra={"reason": str(error)})
    finally:
        transport.abort()
        await outer.closed.wait()


async def _forward(outer: _Pipe, peer: Peer, inner_port: int) -> None:
    loop = asyncio.get_running_loop()
    inner_socket = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    try:
        inner_socket.setblocking(False)
        inner_socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        # Bound first and connected after: gRPC must not see the connection before it is known.
        inner_socket.bind((_LOOPBACK, 0))
        inner_address = "ipv4:{}:{}".format(*inner_socket.getsockname())
        with known_peer(inner_address, peer):
            await loop.sock_connect(inner_socket, (_LOOPBACK, inner_port))
            inner = _Pipe()
            transport, _ = await loop.create_connection(lambda: inner, sock=inner_socket)
            try:
                outer.join(inner)
                inner.join(outer)
                await outer.closed.wait()
                # What the client sent last is still handed on.
                transport.close()
                await inner.closed.wait()
            finally:
                transport.abort()
                await inner.closed.wait()
    finally:
        inner_socket.close()


class _Pipe(asyncio.Protocol):
    """One end of a connection; what it reads goes out at the other end, no faster than it can."""

    __slots__ = ("_early", "_other", "_transport", "closed")

    def __init__(self) -> None:
        self.closed = Signal()
        self._transport: asyncio.Transport | None = None
        self._other: _Pipe | None = None
        self._early: list[bytes] = []

    def join(self, other: _Pipe) -> None:
        """From now on, forward to `other`."""
        self._other = other
        for data in self._early:
            other.write(data)
        self._early.clear()
        if self.closed.is_set():
            other.close()
        elif self._transport is not None:
            self._transport.resume_reading()

    def write(self, data: bytes) -> None:
        if self._transport is None:
            return
        whole = memoryview(data)
        for start in range(0, len(whole), _RECORD_BYTES):
            self._transport.write(whole[start : start + _RECORD_BYTES])

    def close(self) -> None:
        if self._transport is not None:
            self._transport.close()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        self._transport.pause_reading()  # until there is somewhere to write to

    def data_received(self, data: bytes) -> None:
        if self._other is None:
            self._early.append(data)
        else:
            self._other.write(data)

    def pause_writing(self) -> None:
        if self._other is not None and self._other._transport is not None:
            self._other._transport.pause_reading()

    def resume_writing(self) -> None:
        if self._other is not None and self._other._transport is not None:
            self._other._transport.resume_reading()

    def connection_lost(self, _error: Exception | None) -> None:
        self.closed.set()
        if self._other is not None:
            self._other.close()


def _verified_chain(ssl_object: Any) -> tuple[bytes, ...]:
    """The client's chain as it was verified, DER, leaf first; empty if it showed none."""
    leaf = ssl_object.getpeercert(binary_form=True)
    if leaf is None:
        return ()
    if hasattr(ssl_object, "get_verified_chain"):
        return tuple(ssl_object.get_verified_chain())
    # Python 3.11 and 3.12 have it on the object within only; remove when 3.13 is the floor.
    chain = ssl_object._sslobj.get_verified_chain()
    return tuple(certificate.public_bytes(2) for certificate in chain)  # 2: DER


def _address(accepted: socket.socket) -> str:
    try:
        host, port = accepted.getpeername()[:2]
    except OSError:
        return "unknown"
    return f"ipv6:[{host}]:{port}" if ":" in host else f"ipv4:{host}:{port}"
