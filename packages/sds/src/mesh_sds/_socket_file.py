"""A path for a Unix socket: what is there, and making it ours."""

import errno
import socket
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from enum import StrEnum
from pathlib import Path

from mesh_sds._errors import SocketUnusable
from xds_server import ListenError, prepare_socket_path

LONGEST_PATH_BYTES = 107
"""`sun_path` of sockaddr_un is 108 bytes with its final NUL; see unix(7)."""


class SocketFile(StrEnum):
    """What is found where a socket is looked for."""

    ABSENT = "absent"
    NOT_A_SOCKET = "not a socket"
    DEAD = "dead"
    """A socket that nobody listens on any more."""
    LISTENING = "listening"


def look_at(path: Path) -> SocketFile:
    """Look what is at `path`; a symbolic link is followed. Raises SocketUnusable."""
    try:
        mode = path.stat().st_mode
    except FileNotFoundError:
        return SocketFile.NOT_A_SOCKET if path.is_symlink() else SocketFile.ABSENT
    except OSError as error:
        raise SocketUnusable(f"cannot look at {path}: {error.strerror}") from error
    if not stat.S_ISSOCK(mode):
        return SocketFile.NOT_A_SOCKET
    with socket.socket(socket.AF_UNIX) as probe:
        probe.setblocking(False)
        try:
            probe.connect(str(path))
        except BlockingIOError:
            return SocketFile.LISTENING  # its backlog is full
        except PermissionError as error:
            raise SocketUnusable(f"cannot connect to {path}: {error.strerror}") from error
        except OSError as error:
            if error.errno == errno.ECONNREFUSED:
                return SocketFile.DEAD
            raise SocketUnusable(f"cannot connect to {path}: {error.strerror}") from error
    return SocketFile.LISTENING


def clear_path(path: Path, *, longest_bytes: int = LONGEST_PATH_BYTES) -> None:
    """Make the directory, private to this user, and clear away a dead socket.

    Raises SocketUnusable if the path can't hold a socket, or is in use.
    """
    try:
        prepare_socket_path(path, longest_bytes=longest_bytes)
    except ListenError as error:
        raise SocketUnusable(str(error)) from error


@contextmanager
def listening_at(path: Path, *, mode: int, backlog: int) -> Iterator[socket.socket]:
    """Listen at a cleared path; the socket goes away with the context. Raises SocketUnusable.

    The mode is set between bind and listen, so nobody gets in under a wider one.
    """
    with socket.socket(socket.AF_UNIX) as listening:
        listening.setblocking(False)
        try:
            listening.bind(str(path))
            path.chmod(mode)
            listening.listen(backlog)
            made = path.stat()
        except OSError as error:
            raise SocketUnusable(f"cannot listen on {path}: {error.strerror}") from error
        try:
            yield listening
        finally:
            # Somebody may have put another in its place.
            with suppress(OSError):
                now = path.lstat()
                if (now.st_dev, now.st_ino) == (made.st_dev, made.st_ino):
                    path.unlink()
