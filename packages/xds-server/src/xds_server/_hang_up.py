"""Ends the connections of clients that do not read.

The status of a stream goes out after what was written to it, and gRPC for asyncio has no way to
reset a stream: one whose client does not read would stay for as long as the client does. So its
connection is shut down; gRPC then ends the streams on it as it does when a client goes.
"""

from __future__ import annotations

import asyncio
import os
import socket
import stat
from contextlib import suppress
from pathlib import Path
from urllib.parse import unquote


class HangUp:
    """Shuts down TCP connections by who is at their other end; many at once in one go."""

    def __init__(self) -> None:
        self._peers: set[tuple[str, int]] = set()

    def hang_up(self, peer: str) -> None:
        """Shut down the connection of `peer`, as gRPC names it, soon.

        Clients on Unix sockets have no address to be found by: theirs stay until they close them.
        """
        address = _address(peer)
        if address is None:
            return
        if not self._peers:
            asyncio.get_running_loop().call_soon(self._shut_down)
        self._peers.add(address)

    def _shut_down(self) -> None:
        peers, self._peers = self._peers, set()
        for path in Path("/dev/fd").iterdir():
            with suppress(OSError):  # not a socket, not connected, or closed meanwhile
                _shut_down_if(int(path.name), peers)


def _shut_down_if(descriptor: int, peers: set[tuple[str, int]]) -> None:
    if not stat.S_ISSOCK(os.fstat(descriptor).st_mode):
        return
    with socket.socket(fileno=os.dup(descriptor)) as connection:
        if connection.family in {socket.AF_INET, socket.AF_INET6}:
            host, port, *_ = connection.getpeername()
            if (host.removeprefix("::ffff:"), port) in peers:
                connection.shutdown(socket.SHUT_RDWR)


def _address(peer: str) -> tuple[str, int] | None:
    """Host and port of "ipv4:host:port" or "ipv6:[host]:port"; None for anything else."""
    family, _, rest = unquote(peer).partition(":")
    host, _, port = rest.rpartition(":")
    if family not in {"ipv4", "ipv6"} or not port.isdecimal():
        return None
    return host.strip("[]").removeprefix("::ffff:"), int(port)
