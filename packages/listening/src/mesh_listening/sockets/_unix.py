"""Listening Unix sockets: a dead socket's file is replaced, another process's never removed."""

import os
import socket
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from enum import StrEnum
from pathlib import Path

from mesh_listening._errors import ListenError

LONGEST_SOCKET_PATH_BYTES = 107
"""`sun_path` of sockaddr_un is 108 bytes with its final NUL; see unix(7)."""
_BACKLOG = 4096


class SocketFile(StrEnum):
    """The kinds of files at the path of a socket."""

    ABSENT = "absent"
    NOT_A_SOCKET = "not a socket"
    DEAD = "dead"
    """A socket that no process listens on any more."""
    LISTENING = "listening"


def inspect_socket_path(path: Path) -> SocketFile:
    """Return what there is at `path`; a symbolic link is followed. Raises ListenError."""
    try:
        mode = path.stat().st_mode
    except FileNotFoundError:
        return SocketFile.NOT_A_SOCKET if path.is_symlink() else SocketFile.ABSENT
    except OSError as error:
        raise ListenError(f"cannot look at {path}: {error.strerror}") from error
    if not stat.S_ISSOCK(mode):
        return SocketFile.NOT_A_SOCKET
    with socket.socket(socket.AF_UNIX) as probe:
        probe.setblocking(False)
        try:
            probe.connect(str(path))
        except BlockingIOError:
            return SocketFile.LISTENING  # its backlog is full
        except (ConnectionRefusedError, FileNotFoundError):
            return SocketFile.DEAD
        except OSError as error:
            # Without permission to connect: another user's process may listen there.
            raise ListenError(f"cannot connect to {path}: {error.strerror}") from error
    return SocketFile.LISTENING


def prepare_socket_path(path: Path, *, longest_bytes: int = LONGEST_SOCKET_PATH_BYTES) -> None:
    """Make the directory, private to this user, and remove a socket that no process listens on.

    The limit is for the path as given: a relative one may fit where the absolute one is too long.
    Raises ListenError if there can be no socket at the path, or if it is, or may be, in use.
    """
    length = len(os.fsencode(path))
    if length > longest_bytes:
        raise ListenError(
            f"socket path {path} is {length} bytes long, at most {longest_bytes} are possible"
        )
    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    except OSError as error:
        raise ListenError(
            f"cannot make the socket directory {path.parent}: {error.strerror}"
        ) from error
    match inspect_socket_path(path):
        case SocketFile.NOT_A_SOCKET:
            raise ListenError(
                f"{path} is in the way: it exists and is not a socket; remove it or take another"
            )
        case SocketFile.LISTENING:
            raise ListenError(f"{path} is in use: another process listens on it")
        case SocketFile.DEAD:
            try:
                path.unlink(missing_ok=True)
            except OSError as error:
                raise ListenError(f"cannot make a socket at {path}: {error.strerror}") from error
        case SocketFile.ABSENT:
            pass


@contextmanager
def listening_at(
    path: Path, *, mode: int = 0o600, backlog: int = _BACKLOG
) -> Iterator[socket.socket]:
    """Prepare `path` and listen there; the socket's file is removed with the context.

    The mode is set between bind and listen, so no process can connect under a wider one. Raises
    ListenError.
    """
    prepare_socket_path(path)
    with socket.socket(socket.AF_UNIX) as listening:
        listening.setblocking(False)
        try:
            listening.bind(str(path))
            path.chmod(mode)
            listening.listen(backlog)
            bound = path.lstat()
        except OSError as error:
            raise ListenError(f"cannot listen on {path}: {error.strerror}") from error
        try:
            yield listening
        finally:
            # Another process may have put its own file there. While our socket is open, no other
            # file gets its inode number.
            with suppress(OSError):
                now = path.lstat()
                if (now.st_dev, now.st_ino) == (bound.st_dev, bound.st_ino):
                    path.unlink()
