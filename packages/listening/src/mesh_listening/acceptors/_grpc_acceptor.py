"""An acceptor: accepts for a gRPC server inside, and passes the bytes on.

gRPC's own listener knows no limit for a peer, tells nothing of a Unix peer, and can't take client
certificates as an option. So connections are accepted here, and their bytes go on to the server on
loopback, over a socket that says who is behind it; see `behind`.
"""

import asyncio
import logging
import socket
import ssl
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager
from typing import Any

from mesh_listening.acceptors._accepted_peers import AcceptedPeer, known
from mesh_listening.acceptors._deadlines import Deadlines
from mesh_listening.acceptors._pipe import End, TlsEnd
from mesh_listening.acceptors._port import Connection, Port
from mesh_listening.limits._limits import FILES_PER_GRPC_CONNECTION, ConnectionLimits
from mesh_listening.limits._refusals import Reason
from mesh_listening.sockets._peers import AllowedPeers, as_grpc_prints

log = logging.getLogger("mesh_listening")

_MOST_WAITING_BYTES = 64 * 1024
"""Not yet taken by the client's socket; beyond that the server is not read on for it."""
_CONNECT_S = 10.0
_DRAIN_S = 1.0


class GrpcAcceptor:
    """An acceptor; made by `grpc_acceptor`."""

    def __init__(
        self,
        sockets: Sequence[socket.socket],
        *,
        name: str,
        limits: ConnectionLimits,
        allowed: AllowedPeers | None,
        context: Callable[[], ssl.SSLContext] | None,
    ) -> None:
        self.port = Port(
            sockets,
            self._serve,
            name=name,
            limits=limits,
            allowed=allowed,
            files_each=FILES_PER_GRPC_CONNECTION,
        )
        self._context = context
        self._handshake_s = limits.handshake_s
        self._inner: tuple[str, int] = ("", 0)
        self._links: set[_Link] = set()
        self.stalls = Deadlines[End](limits.stalled_s, lambda end: end.link.stalled())

    @contextmanager
    def forwarding(self, inner: tuple[str, int]) -> Iterator[None]:
        """Accept while the block runs, for the server that listens at `inner`, on loopback."""
        self._inner = inner
        self.port.start()
        try:
            yield
        finally:
            self.port.stop()

    async def close(self) -> None:
        """End every connection; what the server sent before it was stopped is still passed on."""
        await self.port.close()
        try:
            # The server has closed its ends. Closing ours first would lose what is not read yet,
            # such as the status of a call.
            async with asyncio.timeout(_DRAIN_S):
                await self.port.wait_gone()
        except TimeoutError:
            for link in tuple(self._links):
                link.abort()
            await self.port.wait_gone()
        self.stalls.clear()

    def _serve(self, connection: Connection) -> None:
        self.port.run(self._connect(connection))

    async def _connect(self, connection: Connection) -> None:
        link = _Link(self, connection, encrypted=self._context is not None)
        self._links.add(link)
        try:
            if await self._connect_outer(link):
                await self._connect_inner(link)
        except OSError as error:
            connection.refuse(Reason.NOT_FORWARDED)
            log.debug("cannot reach the server inside", extra={"reason": str(error)})
        finally:
            link.made()

    async def _connect_outer(self, link: "_Link") -> bool:
        loop = asyncio.get_running_loop()
        accepted = link.connection.take_socket()
        if self._context is None:
            await loop.connect_accepted_socket(lambda: link.outer, accepted)
            link.peer = AcceptedPeer(
                address=link.connection.address, credentials=link.connection.credentials
            )
            return True
        where = {"listener": self.port.name, "address": link.connection.address}
        try:
            # uvloop returns its own TLS protocol here, not the one it was given.
            transport, _ = await loop.connect_accepted_socket(
                lambda: link.outer,
                accepted,
                ssl=self._context(),
                ssl_handshake_timeout=self._handshake_s,
            )
        except ConnectionAbortedError:
            accepted.close()
            link.connection.refuse(Reason.NO_HANDSHAKE)
            return False
        except (OSError, ssl.SSLError) as error:
            accepted.close()
            # Who hangs up without a word, as health checks do, is nobody's concern.
            level = logging.INFO if str(error) else logging.DEBUG
            reason = str(error) or "the client closed the connection"
            log.log(level, "TLS handshake failed", extra={**where, "reason": reason})
            return False
        except Exception:  # The caller's context() may raise anything.
            accepted.close()
            log.exception("no TLS context for a new connection", extra=where)
            return False
        except BaseException:
            accepted.close()
            raise
        transport.set_write_buffer_limits(high=_MOST_WAITING_BYTES)
        link.peer = AcceptedPeer(
            address=link.connection.address,
            encrypted=True,
            certificate_chain=_verified_chain(transport.get_extra_info("ssl_object")),
        )
        return True

    async def _connect_inner(self, link: "_Link") -> None:
        loop = asyncio.get_running_loop()
        host, _ = self._inner
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        inner = socket.socket(family, socket.SOCK_STREAM)
        try:
            inner.setblocking(False)
            inner.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            # Bound first and connected after: gRPC must not see the connection before it is known.
            inner.bind((host, 0))
            link.know(as_grpc_prints(*inner.getsockname()[:2]))
            async with asyncio.timeout(_CONNECT_S):
                await loop.sock_connect(inner, self._inner)
            await loop.create_connection(lambda: link.inner, sock=inner)
        except BaseException:
            link.forget()
            inner.close()
            raise
        link.outer.join(link.inner)
        link.inner.join(link.outer)

    def ended(self, link: "_Link") -> None:
        self._links.discard(link)
        link.connection.release()


class _Link:
    """A client's connection and the inner one it goes on over."""

    __slots__ = (
        "_acceptor",
        "_inner_address",
        "_making",
        "connection",
        "inner",
        "outer",
        "peer",
        "stalls",
    )

    def __init__(self, acceptor: GrpcAcceptor, connection: Connection, *, encrypted: bool) -> None:
        self._acceptor = acceptor
        self.stalls = acceptor.stalls
        self._inner_address = ""
        self._making = True
        self.peer = AcceptedPeer(address="")
        self.connection = connection
        self.outer: End = TlsEnd(self) if encrypted else End(self)
        self.inner = End(self)

    def know(self, inner_address: str) -> None:
        """Calls from `inner_address` are calls of the peer behind, until it is forgotten."""
        self._inner_address = inner_address
        known[inner_address] = self

    def forget(self) -> None:
        known.pop(self._inner_address, None)

    def lost(self, end: End) -> None:
        if end is self.inner:
            self.forget()
            if not self._making and not end.heard and self.outer.is_open:
                # The server greets at once; one that has no room for us hangs up instead.
                self.connection.refuse(Reason.NOT_FORWARDED)
        self._look()

    def stalled(self) -> None:
        self.connection.refuse(Reason.STALLED)
        self.abort()

    def disconnect(self) -> None:
        self.connection.count(Reason.NOT_READ)
        self.abort()

    def made(self) -> None:
        """Connecting has come to its end, good or bad."""
        self._making = False
        if not (self.outer.is_open and self.inner.is_open):
            self.close()
        self._look()

    def close(self) -> None:
        self.outer.close()
        self.inner.close()

    def abort(self) -> None:
        self.outer.abort()
        self.inner.abort()

    def _look(self) -> None:
        if not self._making and not self.outer.is_open and not self.inner.is_open:
            self._acceptor.ended(self)


@asynccontextmanager
async def grpc_acceptor(
    sockets: Sequence[socket.socket],
    *,
    name: str,
    limits: ConnectionLimits,
    allowed: AllowedPeers | None = None,
    context: Callable[[], ssl.SSLContext] | None = None,
) -> AsyncIterator[GrpcAcceptor]:
    """Make an acceptor for listening sockets; it accepts while `GrpcAcceptor.forwarding` does.

    allowed: who may connect to a Unix socket. context: gives the TLS context for each new
    handshake; None: no TLS. Leaving ends the connections that are left, so the server inside is
    stopped first.
    """
    acceptor = GrpcAcceptor(sockets, name=name, limits=limits, allowed=allowed, context=context)
    try:
        yield acceptor
    finally:
        await acceptor.close()


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
