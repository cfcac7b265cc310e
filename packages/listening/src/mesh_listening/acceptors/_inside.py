"""Where a gRPC server listens inside, and the connections that its acceptor opens to it there.

It is a Unix socket whose file is removed once it is open here: this process alone can connect to
it, and those that may trace this one. Where there can be no such socket, it is a port on loopback.
"""

import asyncio
import os
import secrets
import socket
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import NamedTuple, Protocol

from mesh_listening.sockets._peers import as_grpc_prints

_QUEUE_IS_FULL_S = 0.01
"""How long to wait before another attempt, while the server has yet to accept others."""


_DIRECTORIES = ("/dev/shm", "/tmp", "/var/tmp")  # noqa: S108  in a directory for this user only
"""Where a socket's file can be for a moment. The first is there in most containers."""


@contextmanager
def for_a_moment() -> Iterator[Path]:
    """The path for a socket, in a new directory of this user alone; both are removed at the end.

    The library's `tempfile` would bring compression along, 1 MB. Raises OSError.
    """
    directory = _new_directory()
    path = directory / "inside"
    try:
        yield path
    finally:
        path.unlink(missing_ok=True)
        directory.rmdir()


def _new_directory() -> Path:
    for parent in _DIRECTORIES:
        directory = Path(parent, f"grpc-{os.urandom(8).hex()}")
        with suppress(OSError):
            directory.mkdir(0o700)
            return directory
    raise FileNotFoundError(f"no new directory can be made in any of {', '.join(_DIRECTORIES)}")


class Bound(NamedTuple):
    """A socket that is bound and not yet connected, and its address, as gRPC prints it."""

    socket: socket.socket
    address: str


class Inside(Protocol):
    """Where a server listens inside. Its methods raise OSError."""

    def bind(self) -> Bound:
        """Return a new socket for a connection to the server; no other has its address."""

    async def connect(self, bound: socket.socket) -> None:
        """Connect such a socket."""


class Loopback(NamedTuple):
    """A port on loopback, to which any process of this network namespace can connect."""

    host: str
    port: int

    def bind(self) -> Bound:
        """Return a new socket, bound to a port."""
        family = socket.AF_INET6 if ":" in self.host else socket.AF_INET
        one = socket.socket(family, socket.SOCK_STREAM)
        try:
            one.setblocking(False)
            one.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            one.bind((self.host, 0))
            return Bound(one, as_grpc_prints(*one.getsockname()[:2]))
        except BaseException:
            one.close()
            raise

    async def connect(self, bound: socket.socket) -> None:
        """Connect it."""
        await asyncio.get_running_loop().sock_connect(bound, tuple(self))


class Unnamed:
    """A listening Unix socket whose file has been removed: no process can name it.

    It is open here, though not for reading or writing, and this process reaches it by way of that:
    https://man7.org/linux/man-pages/man2/open.2.html (O_PATH).
    """

    def __init__(self, path: Path) -> None:
        self._descriptor = os.open(path, os.O_PATH | os.O_CLOEXEC)

    def close(self) -> None:
        """Forget it, so that it can't be connected to any more."""
        descriptor, self._descriptor = self._descriptor, -1
        os.close(descriptor)

    def bind(self) -> Bound:
        """Return a new socket with an abstract name that no other process can guess.

        The kernel would choose one of five digits, mostly the next one: a process in another
        network namespace could have bound it there, and connected before the file was removed.
        """
        one = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            one.setblocking(False)
            name = secrets.token_hex(16)
            one.bind(f"\0{name}")
            return Bound(one, f"unix-abstract:{name}")
        except BaseException:
            one.close()
            raise

    async def connect(self, bound: socket.socket) -> None:
        """Connect it; with a full queue the kernel says so at once, rather than let it wait."""
        while True:
            if self._connects(bound):
                return
            await asyncio.sleep(_QUEUE_IS_FULL_S)

    def try_once(self) -> None:
        """Raise OSError if no connections can be opened, as in some sandboxes."""
        with self.bind().socket as one:
            self._connects(one)

    def _connects(self, bound: socket.socket) -> bool:
        try:
            bound.connect(f"/proc/self/fd/{self._descriptor}")
        except BlockingIOError:
            return False
        return True
