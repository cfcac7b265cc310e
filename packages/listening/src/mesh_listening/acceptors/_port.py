"""The accept loop: takes connections, within limits, and hands on those that sent a byte.

Until its first byte arrives, a connection is only a socket and a small object. A refused connection
is closed at once.
"""

import asyncio
import errno
import logging
import os
import socket
import struct
from collections.abc import Callable, Coroutine, Sequence
from contextlib import suppress
from typing import NamedTuple

from mesh_listening.acceptors._connection import Connection, remote_of
from mesh_listening.acceptors._deadlines import Deadlines
from mesh_listening.acceptors._refusal_log import RefusalLog
from mesh_listening.limits._admission import Admission
from mesh_listening.limits._limits import GRPC_LIMITS, HTTP_LIMITS, ConnectionLimits
from mesh_listening.limits._open_files import OPEN_FILES
from mesh_listening.limits._refusals import Reason
from mesh_listening.sockets._peers import AllowedPeers, PeerCredentials, peer_of_address

log = logging.getLogger("mesh_listening")

_ACCEPTED_AT_ONCE = 64
_PAUSE_S = 0.1
_LOOK_AGAIN_S = 1.0
_RESET = struct.pack("ii", 1, 0)  # struct linger: on, 0 s
_OUT_OF_FILES = frozenset({errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM})


class PortCounts(NamedTuple):
    """The numbers of a port's connections at one moment.

    accepted: all since the start, the refused ones too. refused: by every reason, also at 0.
    """

    listener: str
    accepted: int
    open: int
    refused: dict[Reason, int]


class Port:
    """Accepts the connections of some listening sockets and gives them to `serve`.

    name: the listener's name in the log. files_each: how many files are open for a connection that
    is served. allowed: the processes that may connect to a Unix socket. served_when_out: so many
    connections are served when this process has no free file, by files kept for that.
    """

    def __init__(
        self,
        sockets: Sequence[socket.socket],
        serve: Callable[[Connection], None],
        *,
        name: str,
        limits: ConnectionLimits,
        allowed: AllowedPeers | None = None,
        files_each: int = 1,
        served_when_out: int = 0,
    ) -> None:
        self.name = name
        self.accepted = 0
        self._sockets = tuple(sockets)
        self._serve = serve
        self._configured_limits = limits
        self._allowed = allowed
        self._files_each = files_each
        self._admission = Admission(limits)
        self._refusals = RefusalLog(name, self._admission)
        self._silent = Deadlines[Connection](limits.first_byte_s, self._end_silent)
        self._pause: asyncio.TimerHandle | None = None
        self._spare_file: int | None = None
        self._most_reserved = served_when_out
        self._reserve: list[int] = []
        self._look: asyncio.TimerHandle | None = None
        self._tasks: set[asyncio.Task[None]] = set()
        self._all_gone = asyncio.Event()
        self._all_gone.set()

    @property
    def limits(self) -> ConnectionLimits:
        """The limits as configured; once started, as far as open files allow."""
        return self._admission.limits

    @property
    def open_connections(self) -> int:
        return self._admission.open_connections

    @property
    def refused(self) -> dict[Reason, int]:
        """How many connections were refused or ended since the start, by reason."""
        return dict(self._refusals.totals)

    def counts(self) -> PortCounts:
        """Return all numbers of one moment, for metrics."""
        refused = {reason: self._refusals.totals[reason] for reason in Reason}
        return PortCounts(self.name, self.accepted, self.open_connections, refused)

    def start(self) -> None:
        """Accept from now on."""
        limits = self._configured_limits.within_open_files(self._files_each)
        if limits != self._configured_limits:
            # Less than a default is what most machines have, and enough for what they serve.
            is_default = self._configured_limits in (GRPC_LIMITS, HTTP_LIMITS)
            log.log(
                logging.DEBUG if is_default else logging.INFO,
                "the limit of open files allows fewer connections than are configured",
                extra={"listener": self.name, "port": limits.port, "peer": limits.peer},
            )
        self._admission.limits = limits
        self._keep_files()
        self._listen()

    def stop(self) -> None:
        """Accept no more, and close connections that sent nothing yet; the others stay open."""
        loop = asyncio.get_running_loop()
        for listening in self._sockets:
            if listening.fileno() >= 0:
                loop.remove_reader(listening)
        if self._pause is not None:
            self._pause.cancel()
            self._pause = None
        if self._look is not None:
            self._look.cancel()
            self._look = None
        for connection in self._silent.clear():
            self._drop(connection)
        if self._spare_file is not None:
            os.close(self._spare_file)
            self._spare_file = None
        while self._reserve:
            os.close(self._reserve.pop())

    async def wait_gone(self) -> None:
        """Wait until no connection is left."""
        await self._all_gone.wait()

    async def close(self) -> None:
        """Cancel connections that are just being handed over, and log the end of refusals."""
        for task in self._tasks:
            task.cancel()
        if self._tasks:
            await asyncio.wait(self._tasks)
        self._refusals.close()

    def record(self, reason: Reason, peer: str) -> None:
        """Count and log that a connection ends for this reason. peer: its name in the log."""
        self._refusals.record(reason, peer)

    def run(self, work: Coroutine[object, object, None]) -> None:
        """Run a short task for a connection; it is cancelled when the port is closed."""
        task = asyncio.create_task(work, name=f"connection to {self.name}")
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    def _listen(self) -> None:
        self._pause = None
        self._keep_files()
        loop = asyncio.get_running_loop()
        for listening in self._sockets:
            loop.add_reader(listening, self._accept, listening)

    def _accept(self, listening: socket.socket) -> None:
        for _ in range(_ACCEPTED_AT_ONCE):
            try:
                accepted, address = listening.accept()
            except BlockingIOError:
                return
            except ConnectionAbortedError:
                continue  # the client has closed it before we accepted it
            except OSError as error:
                self._note_out_of_files(error)
                if error.errno not in _OUT_OF_FILES or self._spare_file is None:
                    self._pause_listening(error)
                    return
                if not (self._serve_one(listening) or self._refuse_one(listening)):
                    return
                continue
            self._admit(accepted, address)

    def _keep_files(self) -> None:
        """Open the files that are kept for when there are no others, as far as there are any."""
        if self._spare_file is None:
            self._spare_file = _open_spare_file()
        while len(self._reserve) < self._most_reserved:
            if (file := _open_spare_file()) is None:
                return
            self._reserve.append(file)

    def _note_out_of_files(self, error: OSError) -> None:
        OPEN_FILES.note(error)
        if self._look is None:
            loop = asyncio.get_running_loop()
            self._look = loop.call_later(_LOOK_AGAIN_S, self._look_again)

    def _look_again(self) -> None:
        self._look = None
        if OPEN_FILES.is_over():
            self._keep_files()
        else:
            self._look = asyncio.get_running_loop().call_later(_LOOK_AGAIN_S, self._look_again)

    def _serve_one(self, listening: socket.socket) -> bool:
        """Accept with one of the files that are kept for it; returns False if none could be."""
        if not self._reserve:
            return False
        os.close(self._reserve.pop())
        try:
            accepted, address = listening.accept()
        except OSError:
            self._keep_files()
            return False
        self._admit(accepted, address)
        return True

    def _refuse_one(self, listening: socket.socket) -> bool:
        """Accept with the spare file, only to close: the client learns that it is refused.

        Returns False if no client waits, or if accepting failed even so.
        """
        if self._spare_file is not None:
            os.close(self._spare_file)
        try:
            accepted, address = listening.accept()
        except BlockingIOError:
            self._spare_file = _open_spare_file()
            return False
        except OSError as error:
            self._spare_file = _open_spare_file()
            self._pause_listening(error)
            return False
        _reset(accepted)
        self._spare_file = _open_spare_file()
        peer = peer_of_address(address[0]) if isinstance(address, tuple) else "unix"
        self._refusals.record(Reason.OUT_OF_FILES, peer)
        return True

    def _pause_listening(self, error: OSError) -> None:
        """Stop listening for a moment: a connection that can't be accepted stays readable."""
        self._refusals.record(Reason.OUT_OF_FILES, error.strerror or str(error))
        loop = asyncio.get_running_loop()
        for listening in self._sockets:
            loop.remove_reader(listening)
        self._pause = loop.call_later(_PAUSE_S, self._listen)

    def _admit(self, accepted: socket.socket, address: object) -> None:
        accepted.setblocking(False)
        self.accepted += 1
        try:
            if isinstance(address, tuple):
                accepted.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            remote = remote_of(accepted, address, self._admission.limits)
        except OSError:
            accepted.close()
            return
        if remote.credentials is not None and not self._allows(remote.credentials):
            accepted.close()
            return
        connection = Connection(accepted, remote, refusals=self._refusals, released=self._release)
        if (full := self._admission.admit(connection, remote.shares)) is not None:
            self._refusals.record(full.reason, full.share or connection.peer)
            _reset(accepted)
            return
        if not OPEN_FILES.hold(self._files_each):
            self._admission.release(connection)
            self._refusals.record(Reason.PORT_FULL, connection.peer)
            _reset(accepted)
            return
        self._all_gone.clear()
        if not self._serve_or_end(connection):
            self._silent.add(connection)
            asyncio.get_running_loop().add_reader(accepted, self._readable, connection)

    def _allows(self, peer: PeerCredentials) -> bool:
        if self._allowed is None:
            return True
        try:
            reason = self._allowed.refusal(peer)
        except Exception as error:  # noqa: BLE001 - the caller's pids() may raise anything
            self._refusals.record_not_known(error)
            return False
        if reason is not None:
            self._refusals.record_not_allowed(peer, reason)
        return reason is None

    def _readable(self, connection: Connection) -> None:
        if connection.socket is not None and self._serve_or_end(connection):
            self._silent.discard(connection)

    def _serve_or_end(self, connection: Connection) -> bool:
        """Serve a connection if its first byte is there, release it if it has ended.

        Returns False if neither is so yet.
        """
        accepted = connection.socket
        if accepted is None:
            return True
        try:
            first = accepted.recv(1, socket.MSG_PEEK)
        except BlockingIOError:
            return False
        except OSError:
            first = b""
        asyncio.get_running_loop().remove_reader(accepted)
        if not first:
            log.debug("connection closed before its first byte", extra={"peer": connection.peer})
            connection.release()
            return True
        self._serve(connection)
        return True

    def _end_silent(self, connection: Connection) -> None:
        self._refusals.record(Reason.NO_FIRST_BYTE, connection.peer)
        self._drop(connection)

    def _drop(self, connection: Connection) -> None:
        if connection.socket is not None:
            asyncio.get_running_loop().remove_reader(connection.socket)
        connection.release()

    def _release(self, connection: Connection) -> None:
        self._admission.release(connection)
        OPEN_FILES.release(self._files_each)
        if self._look is not None:  # Its socket is closed right after this.
            asyncio.get_running_loop().call_soon(self._keep_files)
        if not self._admission.open_connections:
            self._all_gone.set()


def _reset(refused: socket.socket) -> None:
    """Close a socket with a reset, so that the kernel keeps nothing of the connection."""
    with suppress(OSError):
        refused.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET)
    refused.close()


def _open_spare_file() -> int | None:
    try:
        return os.open(os.devnull, os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return None
