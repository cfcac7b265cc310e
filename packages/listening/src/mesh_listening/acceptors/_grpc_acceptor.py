"""Accepts connections for a gRPC server inside, and forwards their bytes to it.

gRPC's own listener has no limit for a peer, no credentials of a Unix peer, and can't make client
certificates optional. So connections are accepted here, and each is forwarded over a connection of
its own to the server inside, which finds the real peer by `accepted_peer`.
"""

import asyncio
import logging
import socket
import ssl
import sys
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager
from operator import attrgetter
from typing import Protocol

from mesh_listening.acceptors._accepted_peers import AcceptedPeer, by_inner_address
from mesh_listening.acceptors._connection import Connection
from mesh_listening.acceptors._deadlines import Deadlines
from mesh_listening.acceptors._inside import Inside
from mesh_listening.acceptors._pipe import End, TlsEnd
from mesh_listening.acceptors._port import Port
from mesh_listening.acceptors._receiving import Receiving
from mesh_listening.limits._limits import FILES_PER_GRPC_CONNECTION, ConnectionLimits
from mesh_listening.limits._open_files import OPEN_FILES
from mesh_listening.limits._refusals import Reason
from mesh_listening.limits._request_room import RequestRoom
from mesh_listening.sockets._peers import AllowedPeers, peer_name

log = logging.getLogger("mesh_listening")

_MOST_WAITING_BYTES = 64 * 1024
"""Waiting for the client's socket; with more, nothing is read from the server for it."""
_CONNECT_S = 10.0
_DRAIN_S = 1.0


class GrpcAcceptor:
    """A running acceptor; created by `grpc_acceptor`."""

    def __init__(
        self,
        sockets: Sequence[socket.socket],
        *,
        name: str,
        limits: ConnectionLimits,
        allowed: AllowedPeers | None,
        context: Callable[[], ssl.SSLContext] | None,
        room: RequestRoom,
    ) -> None:
        self.room = room
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
        self._inside: Inside | None = None
        self._links: set[_Link] = set()
        self.stalls = Deadlines[End](limits.stalled_s, lambda end: end.link.on_stall())

    @contextmanager
    def forwarding(self, inside: Inside) -> Iterator[None]:
        """While the block runs, accept for the server that listens at `inside`."""
        self._inside = inside
        self.port.start()
        try:
            yield
        finally:
            self.port.stop()

    async def close(self) -> None:
        """End every connection, after forwarding the bytes that the server has sent."""
        await self.port.close()
        try:
            # The server has closed its ends. Closing ours first would lose bytes that are not
            # read yet, such as the status of a call.
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
            OPEN_FILES.note(error)
            connection.record(Reason.NOT_FORWARDED)
            log.debug("cannot reach the server inside", extra={"reason": str(error)})
        finally:
            link.on_connected_or_failed()

    async def _connect_outer(self, link: "_Link") -> bool:
        loop = asyncio.get_running_loop()
        accepted = link.connection.detach_socket()
        if self._context is None:
            await loop.connect_accepted_socket(lambda: link.outer, accepted)
            link.peer = AcceptedPeer(
                address=link.connection.remote.address,
                credentials=link.connection.remote.credentials,
            )
            return True
        where = {"listener": self.port.name, "address": link.connection.remote.address}
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
            link.connection.record(Reason.NO_HANDSHAKE)
            return False
        except (OSError, ssl.SSLError) as error:
            accepted.close()
            # Health checks close a connection without a TLS alert; that needs no operator.
            level = logging.INFO if str(error) else logging.DEBUG
            reason = str(error) or "the client closed the connection"
            log.log(level, "TLS handshake failed", extra={**where, "reason": reason})
            return False
        except Exception:  # the caller's context() may raise anything
            accepted.close()
            log.exception("no TLS context for a new connection", extra=where)
            return False
        except BaseException:
            accepted.close()
            raise
        transport.set_write_buffer_limits(high=_MOST_WAITING_BYTES)
        ssl_object = transport.get_extra_info("ssl_object")
        link.peer = AcceptedPeer(
            address=link.connection.remote.address,
            encrypted=True,
            certificate_chain=_verified_chain(ssl_object),
        )
        if link.peer.certificate_chain:
            link.identity = _verified_identity(ssl_object)
        return True

    async def _connect_inner(self, link: "_Link") -> None:
        if self._inside is None:
            raise OSError("there is no server inside")
        inner, address = self._inside.bind()
        # Bound before it is connected: gRPC must not see a connection without its peer.
        link.register(address)
        try:
            async with asyncio.timeout(_CONNECT_S):
                await self._inside.connect(inner)
            loop = asyncio.get_running_loop()
            if inner.family == socket.AF_UNIX:
                await loop.create_unix_connection(lambda: link.inner, sock=inner)
            else:
                await loop.create_connection(lambda: link.inner, sock=inner)
        except BaseException:
            link.unregister()
            inner.close()
            raise
        link.outer.forward_to(link.inner, through=link.receiving.from_client)
        link.inner.forward_to(link.outer, through=link.receiving.from_server)

    def on_link_end(self, link: "_Link") -> None:
        self._links.discard(link)
        link.connection.release()


class _Link:
    """A client's connection and the inner one that it is forwarded over."""

    __slots__ = (
        "_acceptor",
        "_connecting",
        "_inner_address",
        "connection",
        "identity",
        "inner",
        "outer",
        "peer",
        "receiving",
        "stalls",
    )

    def __init__(self, acceptor: GrpcAcceptor, connection: Connection, *, encrypted: bool) -> None:
        self._acceptor = acceptor
        self.stalls = acceptor.stalls
        self._inner_address = ""
        self._connecting = True
        self.peer = AcceptedPeer(address="")
        self.connection = connection
        self.outer: End = TlsEnd(self) if encrypted else End(self)
        self.inner = End(self)
        self.identity = ""
        self.receiving = Receiving(acceptor.room, self)

    @property
    def room(self) -> RequestRoom:
        return self._acceptor.room

    def holder(self) -> str:
        """Return the name that what comes on the connection is counted under."""
        return self.identity or peer_name(self.peer.address, self.peer.credentials)

    def register(self, inner_address: str) -> None:
        """From now on, `accepted_peer` returns this link's peer for calls from `inner_address`."""
        self._inner_address = inner_address
        by_inner_address[inner_address] = self

    def unregister(self) -> None:
        by_inner_address.pop(self._inner_address, None)

    def lost(self, end: End) -> None:
        self.receiving.close()
        if end is self.inner:
            self.unregister()
            if not self._connecting and not end.has_received and self.outer.is_open:
                # gRPC sends its HTTP/2 settings at once; without room it closes the connection.
                self.connection.record(Reason.NOT_FORWARDED)
        self._end_if_closed()

    def on_stall(self) -> None:
        self.connection.record(Reason.STALLED)
        self.abort()

    def disconnect(self) -> None:
        self.connection.count(Reason.NOT_READ)
        self.abort()

    def write_to_client(self, data: bytes) -> None:
        self.outer.write(data)

    def end_receiving(self, reason: Reason) -> None:
        self.connection.record(reason)
        self.abort()

    def sent_bytes(self) -> int:
        return self.outer.written_bytes

    def on_connected_or_failed(self) -> None:
        """Both sides are connected, or connecting has failed."""
        self._connecting = False
        if not (self.outer.is_open and self.inner.is_open):
            self.close()
        self._end_if_closed()

    def close(self) -> None:
        self.outer.close()
        self.inner.close()

    def abort(self) -> None:
        self.outer.abort()
        self.inner.abort()

    def _end_if_closed(self) -> None:
        if not self._connecting and not self.outer.is_open and not self.inner.is_open:
            self._acceptor.on_link_end(self)


@asynccontextmanager
async def grpc_acceptor(
    sockets: Sequence[socket.socket],
    *,
    name: str,
    limits: ConnectionLimits,
    allowed: AllowedPeers | None = None,
    context: Callable[[], ssl.SSLContext] | None = None,
    room: RequestRoom | None = None,
) -> AsyncIterator[GrpcAcceptor]:
    """Make an acceptor for listening sockets; it accepts inside `GrpcAcceptor.forwarding`.

    allowed: the processes that may connect to a Unix socket. context: returns the TLS context of a
    new handshake; None: no TLS. room: of the large requests that are being received; None: one of
    this acceptor's own. Leaving the block ends the connections that are left, so the server
    inside is stopped before.
    """
    acceptor = GrpcAcceptor(
        sockets,
        name=name,
        limits=limits,
        allowed=allowed,
        context=context,
        room=RequestRoom() if room is None else room,
    )
    try:
        yield acceptor
    finally:
        await acceptor.close()


class _Certificate(Protocol):
    def public_bytes(self, encoding: int, /) -> bytes: ...


def _verified_chain(ssl_object: ssl.SSLObject) -> tuple[bytes, ...]:
    """Return the client's verified chain, DER, leaf first; empty if it showed none."""
    if ssl_object.getpeercert(binary_form=True) is None:
        return ()
    if sys.version_info >= (3, 13):
        return tuple(ssl_object.get_verified_chain())
    # Before 3.13 only the object inside has it; remove this when 3.13 is the oldest version.
    inner = attrgetter("_sslobj")(ssl_object)
    chain: tuple[_Certificate, ...] = inner.get_verified_chain()
    return tuple(certificate.public_bytes(2) for certificate in chain)  # 2: DER


def _verified_identity(ssl_object: ssl.SSLObject) -> str:
    """Return the URI in the client's verified certificate, such as a SPIFFE ID; empty without."""
    names = (ssl_object.getpeercert() or {}).get("subjectAltName", ())
    return next((str(name[1]) for name in names if name[0] == "URI"), "")
