"""The accept loop: takes connections, within limits, and hands on those that have spoken.

A connection is nothing but a socket and a small object until its first byte is there; what is
refused is closed at once.
"""

import asyncio
import errno
import logging
import os
import socket
import struct
import time
from collections.abc import Callable, Coroutine, Sequence
from contextlib import suppress
from typing import NamedTuple

from mesh_listening.acceptors._deadlines import Deadlines
from mesh_listening.limits._limits import ConnectionLimits
from mesh_listening.limits._log_limiter import LogLimiter
from mesh_listening.limits._refusals import Ended, Reason, Refusals
from mesh_listening.limits._shares import Share, Shares, shares_of_address, shares_of_process
from mesh_listening.sockets._peers import (
    AllowedPeers,
    PeerCredentials,
    as_grpc_prints,
    credentials_of,
    peer_of_address,
)

log = logging.getLogger("mesh_listening")

_ACCEPTED_AT_ONCE = 64
_PAUSE_S = 0.1
_QUIET_S = 5.0
_TELL_AGAIN_AFTER_S = 60.0
_RESET = struct.pack("ii", 1, 0)  # struct linger: on, 0 s
_OUT_OF_FILES = frozenset({errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM})


class PortCounts(NamedTuple):
    """A port's connections. accepted: all since the start, those refused too. refused: by every
    reason there is.
    """

    listener: str
    accepted: int
    open: int
    refused: dict[Reason, int]


class Connection:
    """One accepted connection; counts until it is released.

    address: as gRPC prints it; `unix:` on a Unix socket. shares: what it is counted under.
    credentials: the process on a Unix socket.
    """

    __slots__ = ("_port", "address", "credentials", "shares", "socket")

    def __init__(
        self,
        port: "Port",
        accepted: socket.socket,
        *,
        address: str,
        shares: tuple[Share, ...],
        credentials: PeerCredentials | None,
    ) -> None:
        self._port: Port | None = port
        self.socket: socket.socket | None = accepted
        self.address = address
        self.shares = shares
        self.credentials = credentials

    @property
    def peer(self) -> str:
        """How the log calls who connected."""
        return self.shares[0].name

    def take_socket(self) -> socket.socket:
        """The socket, which from now on the caller closes."""
        taken, self.socket = self.socket, None
        if taken is None:
            raise RuntimeError("the socket is taken once")
        return taken

    def refuse(self, reason: Reason) -> None:
        """Count and tell that it ends for this reason."""
        if self._port is not None:
            self._port.tell(reason, self.peer)

    def count(self, reason: Reason) -> None:
        """Count that it ends for this reason; somebody else tells of it."""
        if self._port is not None:
            self._port.count(reason)

    def release(self) -> None:
        """It is gone, and counts no more."""
        port, self._port = self._port, None
        if port is not None:
            port._gone(self)
        if self.socket is not None:
            self.socket.close()
            self.socket = None


class Port:
    """Takes the connections of some listening sockets and gives them to `serve`.

    name: how the log calls it. files_each: how many files are open for a connection that is
    served. allowed: who may connect to a Unix socket.
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
    ) -> None:
        self.name = name
        self._sockets = tuple(sockets)
        self._serve = serve
        self._wanted = self.limits = limits
        self._allowed = allowed
        self._files_each = files_each
        self._open: set[Connection] = set()
        self._shares = Shares()
        self._silent = Deadlines[Connection](limits.first_byte_s, self._said_nothing)
        self._refusals = Refusals(quiet_s=_QUIET_S)
        self._end_timer: asyncio.TimerHandle | None = None
        self._pause: asyncio.TimerHandle | None = None
        self._spare: int | None = None
        self._tasks: set[asyncio.Task[None]] = set()
        self._kept_out = LogLimiter(quiet_s=_TELL_AGAIN_AFTER_S, now=time.monotonic)
        self._all_gone = asyncio.Event()
        self._all_gone.set()
        self.accepted = 0

    @property
    def open_connections(self) -> int:
        return len(self._open)

    @property
    def refused(self) -> dict[Reason, int]:
        """How many connections were turned away or ended since the start, by reason."""
        return dict(self._refusals.totals)

    def counts(self) -> PortCounts:
        """One moment of the port, for metrics."""
        refused = {reason: self._refusals.totals[reason] for reason in Reason}
        return PortCounts(self.name, self.accepted, len(self._open), refused)

    def start(self) -> None:
        """Accept from now on."""
        self.limits = self._wanted.within_open_files(self._files_each)
        if self.limits != self._wanted:
            log.info(
                "fewer connections than set, as few files may be open",
                extra={"listener": self.name, "port": self.limits.port, "peer": self.limits.peer},
            )
        self._spare = _spare_file()
        self._listen()

    def stop(self) -> None:
        """Accept no more, and let go of who has not said anything; the others stay."""
        loop = asyncio.get_running_loop()
        for listening in self._sockets:
            if listening.fileno() >= 0:
                loop.remove_reader(listening)
        if self._pause is not None:
            self._pause.cancel()
            self._pause = None
        for connection in self._silent.clear():
            self._drop(connection)
        if self._spare is not None:
            os.close(self._spare)
            self._spare = None

    async def wait_gone(self) -> None:
        """Wait until no connection is left."""
        await self._all_gone.wait()

    async def close(self) -> None:
        """End what is left of handing connections over, and tell of refusals that went on."""
        for task in self._tasks:
            task.cancel()
        if self._tasks:
            await asyncio.wait(self._tasks)
        if self._end_timer is not None:
            self._end_timer.cancel()
            self._end_timer = None
        self._tell_ended(all_of_them=True)

    def run(self, work: Coroutine[object, object, None]) -> None:
        """Do something short for a connection; cancelled when the port is closed."""
        task = asyncio.create_task(work, name=f"connection to {self.name}")
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    def tell(self, reason: Reason, peer: str) -> None:
        """Count a connection that was turned away or ended, and log when that begins."""
        loop = asyncio.get_running_loop()
        if not self._refusals.refused(reason, peer, now=loop.time()):
            return
        log.warning(
            "refusing connections",
            extra={
                "listener": self.name,
                "reason": reason.value,
                "peer": peer,
                "of_peer": self._shares.taken(peer),
                "open": len(self._open),
            },
        )
        if self._end_timer is None:
            self._end_timer = loop.call_later(_QUIET_S, self._tell_ended)

    def count(self, reason: Reason) -> None:
        """Count a connection that was turned away or ended; telling of it is the caller's."""
        self._refusals.totals[reason] += 1

    def _tell_ended(self, *, all_of_them: bool = False) -> None:
        loop = asyncio.get_running_loop()
        for each in self._refusals.ended(now=loop.time(), all_of_them=all_of_them):
            self._log_ended(each)
        at = self._refusals.next_end()
        self._end_timer = None if at is None else loop.call_at(at, self._tell_ended)

    def _log_ended(self, each: Ended) -> None:
        log.warning(
            "no longer refusing connections",
            extra={
                "listener": self.name,
                "reason": each.reason.value,
                "refused": each.refused,
                "peers": each.peers,
                "lasted_s": each.lasted_s,
                "open": len(self._open),
            },
        )

    def _listen(self) -> None:
        self._pause = None
        if self._spare is None:
            self._spare = _spare_file()
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
                continue  # It has gone before we came to it.
            except OSError as error:
                if error.errno not in _OUT_OF_FILES or self._spare is None:
                    self._rest(error)
                    return
                if not self._shed(listening):
                    return
                continue
            self._take(accepted, address)

    def _shed(self, listening: socket.socket) -> bool:
        """Accept with the file kept for it, only to close: who waits learns that it is refused.

        False: nobody waits, or that was not to be had either.
        """
        if self._spare is not None:
            os.close(self._spare)
        try:
            accepted, address = listening.accept()
        except BlockingIOError:
            self._spare = _spare_file()
            return False
        except OSError as error:
            self._spare = _spare_file()
            self._rest(error)
            return False
        _reset(accepted)
        self._spare = _spare_file()
        peer = peer_of_address(address[0]) if isinstance(address, tuple) else "unix"
        self.tell(Reason.OUT_OF_FILES, peer)
        return True

    def _rest(self, error: OSError) -> None:
        """Look away from what can't be accepted: it would call at once, again and again."""
        self.tell(Reason.OUT_OF_FILES, error.strerror or str(error))
        loop = asyncio.get_running_loop()
        for listening in self._sockets:
            loop.remove_reader(listening)
        self._pause = loop.call_later(_PAUSE_S, self._listen)

    def _take(self, accepted: socket.socket, address: object) -> None:
        accepted.setblocking(False)
        self.accepted += 1
        try:
            connection = self._known(accepted, address)
        except OSError:
            accepted.close()
            return
        if connection.credentials is not None and not self._allows(connection.credentials):
            accepted.close()
            return
        if len(self._open) >= self.limits.port:
            self.tell(Reason.PORT_FULL, connection.peer)
            _reset(accepted)
            return
        if (full := self._shares.full(connection.shares)) is not None:
            self.tell(Reason.PEER_FULL, full)
            _reset(accepted)
            return
        self._shares.take(connection.shares)
        self._open.add(connection)
        self._all_gone.clear()
        if not self._spoke(connection):
            self._silent.add(connection)
            asyncio.get_running_loop().add_reader(accepted, self._speaks, connection)

    def _known(self, accepted: socket.socket, address: object) -> Connection:
        if isinstance(address, tuple):
            accepted.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            return Connection(
                self,
                accepted,
                address=as_grpc_prints(address[0], address[1]),
                shares=shares_of_address(peer_of_address(address[0]), self.limits),
                credentials=None,
            )
        credentials = credentials_of(accepted)
        return Connection(
            self,
            accepted,
            address="unix:",
            shares=shares_of_process(credentials, self.limits),
            credentials=credentials,
        )

    def _allows(self, peer: PeerCredentials) -> bool:
        if self._allowed is None:
            return True
        try:
            reason = self._allowed.refusal(peer)
        except Exception:  # The caller's pids() may raise anything; then nobody gets in.
            self.count(Reason.NOT_ALLOWED)
            if self._kept_out.begins("nobody knows"):
                log.exception("cannot tell whether a peer is allowed, refusing it")
            return False
        if reason is None:
            return True
        self.count(Reason.NOT_ALLOWED)
        self._tell_not_allowed(peer, reason)
        return False

    def _tell_not_allowed(self, peer: PeerCredentials, reason: str) -> None:
        """Log who is kept out, but not each time of a user whose processes try all the time."""
        if not self._kept_out.begins(f"{peer.uid} {peer.gid}"):
            return
        log.warning(
            "peer refused",
            extra={
                "listener": self.name,
                "reason": reason,
                "pid": peer.pid,
                "uid": peer.uid,
                "gid": peer.gid,
                "refused_so_far": self._refusals.totals[Reason.NOT_ALLOWED],
            },
        )

    def _speaks(self, connection: Connection) -> None:
        if connection.socket is not None and self._spoke(connection):
            self._silent.discard(connection)

    def _spoke(self, connection: Connection) -> bool:
        """Whether there is something to do for it, which is done."""
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
            log.debug("connection closed without a word", extra={"peer": connection.peer})
            connection.release()
            return True
        self._serve(connection)
        return True

    def _said_nothing(self, connection: Connection) -> None:
        self.tell(Reason.NO_FIRST_BYTE, connection.peer)
        self._drop(connection)

    def _drop(self, connection: Connection) -> None:
        if connection.socket is not None:
            asyncio.get_running_loop().remove_reader(connection.socket)
        connection.release()

    def _gone(self, connection: Connection) -> None:
        self._open.discard(connection)
        self._shares.give_back(connection.shares)
        if not self._open:
            self._all_gone.set()


def _reset(refused: socket.socket) -> None:
    """Close at once: nothing of it stays, in us or in the kernel."""
    with suppress(OSError):
        refused.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET)
    refused.close()


def _spare_file() -> int | None:
    try:
        return os.open(os.devnull, os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return None
