"""A path for a Unix socket: made safe before anything listens on it."""

from __future__ import annotations

import socket
import stat
from pathlib import Path

from ._errors import ListenError

LONGEST_SOCKET_PATH_BYTES = 107
"""`sun_path` of sockaddr_un is 108 bytes with its final NUL; see unix(7)."""


def prepare_socket_path(path: Path, *, longest_bytes: int = LONGEST_SOCKET_PATH_BYTES) -> None:
    """Make the directory, private to this user, and clear away a socket nobody listens on.

    A socket is created under the umask, so only its directory protects it from the first moment.
    Raises `ListenError` if the path cannot be a socket, or is in use, or may be.
    """
    length = len(bytes(path))
    if length > longest_bytes:
        raise ListenError(
            f"socket path {path} is {length} bytes long, at most {longest_bytes} are possible"
        )
    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        mode = path.stat().st_mode
    except FileNotFoundError:
        if path.is_symlink():
            raise _in_the_way(path) from None
        return
    except OSError as error:
        raise ListenError(f"cannot make a socket at {path}: {error.strerror}") from error
    if not stat.S_ISSOCK(mode):
        raise _in_the_way(path)
    if _someone_listens(path):
        raise ListenError(f"{path} is in use: another process listens on it")
    try:
        path.unlink(missing_ok=True)
    except OSError as error:
        raise ListenError(f"cannot make a socket at {path}: {error.strerror}") from error


def _in_the_way(path: Path) -> ListenError:
    return ListenError(f"{path} is in the way: it exists and is not a socket")


def _someone_listens(path: Path) -> bool:
    with socket.socket(socket.AF_UNIX) as probe:
        probe.setblocking(False)
        try:
            probe.connect(str(path))
        except BlockingIOError:
            return True  # Its backlog is full.
        except (ConnectionRefusedError, FileNotFoundError):
            return False
        except OSError as error:
            # Not ours to try: what listens there may be somebody else's.
            raise ListenError(f"cannot connect to {path}: {error.strerror}") from error
        return True
