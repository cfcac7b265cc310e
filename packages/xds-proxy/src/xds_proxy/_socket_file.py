"""Envoy's socket file: private from its first moment, and a leftover is replaced."""

from __future__ import annotations

import contextlib
import os
import socket
import stat
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from xds_proxy._errors import SocketError

MAX_PATH_BYTES = 107
"""Linux: `sun_path` holds 108 bytes, the last one is NUL (unix(7))."""


def prepare(path: Path) -> None:
    """Make the directory (0700) and clear a stale socket away.

    Raises:
        SocketError: the path is too long, holds something that is not a socket, or a live server.
    """
    length = len(os.fsencode(path))  # as given: a relative path is bound as such
    if length > MAX_PATH_BYTES:
        raise SocketError(
            f"socket path {path} is {length} bytes long, but the system allows {MAX_PATH_BYTES}:"
            " choose a shorter one"
        )
    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        found = path.lstat()
    except FileNotFoundError:
        return
    except FileExistsError:
        raise SocketError(
            f"cannot make the socket directory {path.parent}: there is a file of that name"
        ) from None
    except OSError as error:
        raise SocketError(
            f"cannot make the socket directory {path.parent}: {error.strerror}"
        ) from error
    if not stat.S_ISSOCK(found.st_mode):
        raise SocketError(
            f"cannot make the socket {path}: something that is not a socket is in its place;"
            " remove it"
        )
    if _answers(path):
        raise SocketError(f"cannot make the socket {path}: another process listens on it")
    path.unlink(missing_ok=True)


@contextmanager
def bound(path: Path, bind: Callable[[], object]) -> Iterator[None]:
    """Call `bind`, which makes the socket, so that only this user can connect; remove it later.

    grpcio makes the socket under the process's umask, and a chmod afterwards would leave a moment
    for others.

    Raises:
        SocketError: the socket could not be made.
    """
    umask = os.umask(0o177)
    try:
        bind()
        identity = _identity(path)
    except (RuntimeError, OSError) as error:
        raise SocketError(f"cannot make the socket {path}: is its directory writable?") from error
    finally:
        os.umask(umask)
    try:
        yield
    finally:
        with contextlib.suppress(OSError):
            if _identity(path) == identity:
                path.unlink()


def _identity(path: Path) -> tuple[int, int]:
    found = path.lstat()
    return found.st_dev, found.st_ino


def _answers(path: Path) -> bool:
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM | socket.SOCK_NONBLOCK) as client:
        try:
            client.connect(str(path))
        except BlockingIOError:
            return True  # a listener with a full queue
        except OSError:
            return False
    return True
