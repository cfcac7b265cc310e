"""The file at the path of a Unix socket: inspected, and cleared of a dead socket."""

from pathlib import Path

import mesh_listening
from mesh_listening import ListenError, SocketFile
from mesh_sds._errors import SocketUnusable


def inspect_socket_path(path: Path) -> SocketFile:
    """Return the kind of file at `path`; symbolic links are followed. Raises SocketUnusable."""
    try:
        return mesh_listening.inspect_socket_path(path)
    except ListenError as error:
        raise SocketUnusable(str(error)) from error


def clear_path(path: Path) -> None:
    """Make the directory, private to this user, and remove a dead socket.

    Raises SocketUnusable if the path can't hold a socket, or is in use.
    """
    try:
        mesh_listening.prepare_socket_path(path)
    except ListenError as error:
        raise SocketUnusable(str(error)) from error
