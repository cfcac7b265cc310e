"""A door in front of gRPC that asks the kernel who is there.

grpcio accepts connections itself and tells nothing of a Unix peer. So connections are accepted
here, checked, and their bytes passed to a second socket, on which gRPC listens. Our end of each
inner connection is bound to a name of its own first: by that name, which gRPC does tell, a stream
is known to have come through the door, and whose it is.
"""

import asyncio
import logging
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import cast

from mesh_sds._peers import AllowedPeers, PeerCredentials, credentials_of

log = logging.getLogger("mesh_sds")

_PAUSE_WHEN_OUT_OF_FILES_S = 0.1
_INNER_BACKLOG_WAIT_S = 5.0
_TELL_AGAIN_AFTER_S = 60.0


class Front:
    """Accepts, checks and forwards."""

    def __init__(self, allowed: AllowedPeers, *, inner_path: Path) -> None:
        self._allowed = allowed
        self._inner_path = inner_path
        self._inside: dict[str, PeerCredentials] = {}
        self._told: tuple[PeerCredentials, float] | None = None
        self.refused_connections = 0

    def who(self, address: str) -> PeerCredentials | None:
        """Return who is behind an address as gRPC tells it; None: not through this door."""
        return self._inside.get(address)

    @asynccontextmanager
    async def open(self, listening: socket.socket) -> AsyncIterator[None]:
        """Take connections for as long as the context lasts."""
        accepting = asyncio.create_task(self._accept(listening), name="secret front")
        try:
            yield
        finally:
            accepting.cancel()
            await asyncio.wait([accepting])

    async def _accept(self, listening: socket.socket) -> None:
        loop = asyncio.get_running_loop()
        async with asyncio.TaskGroup() as group:
            while True:
                try:
                    accepted, _ = await loop.sock_accept(listening)
                except OSError as error:
                    log.warning("cannot accept connections", extra={"reason": error.strerror})
                    await asyncio.sleep(_PAUSE_WHEN_OUT_OF_FILES_S)
                    continue
                group.create_task(self._admit(accepted), name="secret connection")

    async def _admit(self, accepted: socket.socket) -> None:
        with accepted:
            try:
                peer = credentials_of(accepted)
                reason = self._allowed.refusal(peer)
            except Exception:  # The caller's pids() may raise anything; then nobody gets in.
                self.refused_connections += 1
                log.exception("cannot tell whether a peer is allowed, refusing it")
                return
            if reason is not None:
                self.refused_connections += 1
                self._tell_refused(peer, reason)
                return
            try:
                await self._forward(accepted, peer)
            except OSError as error:
                log.warning("cannot pass a connection on", extra={"reason": str(error)})
            except Exception:  # A fault of ours; it costs this connection, not the door.
                log.exception("connection failed", extra={"pid": peer.pid})

    def _tell_refused(self, peer: PeerCredentials, reason: str) -> None:
        """Log a refusal, but not each one of a peer that tries all the time."""
        now = asyncio.get_running_loop().time()
        if self._told is not None and self._told[0] == peer and now < self._told[1]:
            return
        self._told = (peer, now + _TELL_AGAIN_AFTER_S)
        log.warning(
            "peer refused",
            extra={
                "reason": reason,
                "pid": peer.pid,
                "uid": peer.uid,
                "gid": peer.gid,
                "refused_so_far": self.refused_connections,
            },
        )

    async def _forward(self, accepted: socket.socket, peer: PeerCredentials) -> None:
        loop = asyncio.get_running_loop()
        with socket.socket(socket.AF_UNIX) as inner_socket:
            inner_socket.setblocking(False)
            # Linux gives a socket bound to "" a free abstract name; see unix(7), "autobind".
            inner_socket.bind("")
            address = "unix-abstract:" + inner_socket.getsockname()[1:].decode("ascii")
            self._inside[address] = peer
            outer, inner = _Pipe(), _Pipe()
            outer.other, inner.other = inner, outer
            try:
                await _connect(inner_socket, self._inner_path)
                await loop.create_unix_connection(lambda: inner, sock=inner_socket)
                await loop.connect_accepted_socket(lambda: outer, accepted)
                if not inner.closed.is_set():
                    await outer.closed.wait()
                    await inner.closed.wait()
            finally:
                for pipe in (outer, inner):
                    pipe.abort()
                    await pipe.closed.wait()
                del self._inside[address]


async def _connect(inner_socket: socket.socket, path: Path) -> None:
    """Connect, also while the backlog is full.

    A Unix socket then says EAGAIN, which `loop.sock_connect` takes for a connection under way.
    """
    async with asyncio.timeout(_INNER_BACKLOG_WAIT_S):
        while True:
            try:
                inner_socket.connect(str(path))
                return
            except BlockingIOError:
                await asyncio.sleep(0.005)


class _Pipe(asyncio.Protocol):
    """One end of a connection; what it reads goes out at the other, no faster than that can."""

    def __init__(self) -> None:
        self.closed = asyncio.Event()
        self.other: _Pipe | None = None
        self._transport: asyncio.Transport | None = None
        self._early: list[bytes] = []

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        for data in self._early:
            self._transport.write(data)
        self._early.clear()

    def data_received(self, data: bytes) -> None:
        if self.other is not None:
            self.other.write(data)

    def write(self, data: bytes) -> None:
        if self._transport is None:
            self._early.append(data)
        else:
            self._transport.write(data)

    def pause_writing(self) -> None:
        if self.other is not None and self.other._transport is not None:
            with suppress(RuntimeError):  # closing already
                self.other._transport.pause_reading()

    def resume_writing(self) -> None:
        if self.other is not None and self.other._transport is not None:
            with suppress(RuntimeError):
                self.other._transport.resume_reading()

    def connection_lost(self, _error: Exception | None) -> None:
        self.closed.set()
        if self.other is not None and self.other._transport is not None:
            self.other._transport.close()

    def abort(self) -> None:
        if self._transport is None:
            self.closed.set()
        else:
            self._transport.abort()
