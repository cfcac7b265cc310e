"""A path for a Unix socket, for callers who listen on it by themselves."""

from __future__ import annotations

from pathlib import Path

import mesh_listening
from xds_server._errors import ListenError


def prepare_socket_path(
    path: Path, *, longest_bytes: int = mesh_listening.LONGEST_SOCKET_PATH_BYTES
) -> None:
    """Make the directory, private to this user, and remove a socket that no process listens on.

    Raises `ListenError` if the path cannot be a socket, or is in use, or may be.
    """
    try:
        mesh_listening.prepare_socket_path(path, longest_bytes=longest_bytes)
    except mesh_listening.ListenError as error:
        raise ListenError(str(error)) from error
