"""Connections to workloads, also to those that are in a network of their own."""

import asyncio
import socket
from functools import partial

from mesh_local.config._addresses import Inside

_CONNECTED_WITHIN_S = 10.0


async def open_connection(
    host: str | Inside, port: int
) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    """Connect to an address, or as a program in a workload's network does; raises `OSError`."""
    if isinstance(host, str):
        return await asyncio.open_connection(host, port)
    from mesh_local.capture._kernel import inside  # takes time to load, and most meshes need none

    connecting = partial(socket.create_connection, (host.host, port), _CONNECTED_WITHIN_S)
    connected = await asyncio.to_thread(inside, host.network, connecting)
    connected.setblocking(False)
    return await asyncio.open_connection(sock=connected)
