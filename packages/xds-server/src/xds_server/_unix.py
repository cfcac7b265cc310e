"""A path for a Unix socket: made safe before anything listens on it."""

from __future__ import annotations

import socket
import stat
from pathlib import Path

from ._errors import ListenError

_LONGEST_PATH_BYTES = 107
"""`sun_path` of sockaddr_un is 108 bytes with its final NUL; see unix(7)."""


def prepare_socket_path(path: Path) -> None:
    """Make the directory, private to this user, and clear away a socket nobody listens on.

    A socket is created under the umask, so only its directory protects it from the first moment.
    Raises `ListenError` if the path cannot be a socket, or is in use.
    """
    length = len(bytes(path))
    if length > _LONGEST_PATH_BYTES:
        raise ListenError(
            f"socket path {path} is {length} bytes long, at most {_LONGEST_PATH_BYTES} are possible"
        )
    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        mode = path.lstat().st_mode
    except FileNotFoundError:
        return
    except OSError as error:
        raise ListenError(f"cannot make a socket at {path}: {error.strerror}") from error
    if not stat.S_ISSOCK(mode):
        raise ListenError(f"{path} is in the way: it exists and is not a socket")
    if _someone_listens(path):
        raise ListenError(f"{path} is in use: another process listens on it")
    path.unlink()


def _someone_listens(path: Path) -> bool:
    with socket.socket(socket.AF_UNIX) as probe:
        probe.setblocking(False)
        try:
            probe.connect(str(path))
        except BlockingIOError:
            return True  # Its backlog is full.
        except OSError:
            return False
        return True
