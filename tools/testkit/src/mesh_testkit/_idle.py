"""Clients that only hold connections."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from itertools import islice
from pathlib import Path


@contextmanager
def idle_connections(
    address: tuple[str, int] | str | Path, count: int, *, said: bytes = b""
) -> Iterator[list[socket.socket]]:
    """Hold connections that say this and nothing else; those refused are closed by the other side.

    address: host and port, `host:port`, or the path of a Unix socket. The server need not run
    meanwhile: its backlog takes them.
    """
    held: list[socket.socket] = []
    try:
        for _ in range(count):
            held.append(_connected(address))
            with suppress(OSError):
                held[-1].sendall(said)
        yield held
    finally:
        for each in held:
            each.close()


async def all_closed(held: Iterable[socket.socket]) -> None:
    """Wait until the other side has closed every one of them, whatever it says before."""
    loop = asyncio.get_running_loop()
    for each in held:
        each.setblocking(False)
        with suppress(ConnectionError):
            while await loop.sock_recv(each, 65536):
                pass


async def some_closed(held: Iterable[socket.socket], count: int) -> None:
    """Wait until the other side has closed so many of them, whichever these are.

    Connections need not be accepted in the order in which they were made.
    """
    closing = [asyncio.create_task(all_closed([each]), name="closing") for each in held]
    try:
        for one in islice(asyncio.as_completed(closing), count):
            await one
    finally:
        for each in closing:
            each.cancel()
        await asyncio.wait(closing)


def _connected(address: tuple[str, int] | str | Path) -> socket.socket:
    if isinstance(address, Path):
        client = socket.socket(socket.AF_UNIX)
        try:
            client.connect(str(address))
        except OSError:
            client.close()
            raise
        return client
    if isinstance(address, str):
        host, _, port = address.rpartition(":")
        address = host.strip("[]"), int(port)
    return socket.create_connection(address)
