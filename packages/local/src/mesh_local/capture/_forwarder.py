"""Forwards the queries that come to the hub to the machine's own DNS servers.

It runs outside of the mesh's networks, with sockets that were opened inside: a server on this
machine, such as systemd-resolved at 127.0.0.53, can't be reached from there. It only passes on:
the agents keep answers and know the mesh's names.
"""

import asyncio
import socket
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import cast

from mesh_dnsproxy import Upstream, parse_resolv_conf

PORT = 53
MOST_QUERIES = 512
"""At a time, over UDP; others get no answer, as from a server that is too busy."""
MOST_CONNECTIONS = 64
"""At a time; others wait."""
_MOST_BYTES = 65535
_ANSWERED_WITHIN_S = 2.0
"""By a server, before the next one is asked."""
_CONNECTION_S = 30.0
_RESOLV_CONF = Path("/etc/resolv.conf")
_DEFAULT = (Upstream("127.0.0.1"),)


def hub_sockets(address: str) -> tuple[socket.socket, socket.socket]:
    """Open the sockets for queries over UDP and TCP in this process's network; raises `OSError`."""
    datagrams = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    connections = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    try:
        connections.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        for each in (datagrams, connections):
            each.bind((address, PORT))
        connections.listen()
    except OSError:
        datagrams.close()
        connections.close()
        raise
    return datagrams, connections


async def forward(datagrams: socket.socket, connections: socket.socket) -> None:
    """Forward what comes to these sockets; never returns."""
    slots = asyncio.Semaphore(MOST_CONNECTIONS)

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            async with slots, asyncio.timeout(_CONNECTION_S):
                await _relay(reader, writer)
        except (OSError, TimeoutError):
            pass  # the client asks again
        finally:
            writer.close()

    async with asyncio.TaskGroup() as queries:
        transport, _ = await asyncio.get_running_loop().create_datagram_endpoint(
            lambda: _Queries(queries), sock=datagrams
        )
        try:
            async with await asyncio.start_server(serve, sock=connections) as server:
                await server.serve_forever()
        finally:
            transport.close()


class _Queries(asyncio.DatagramProtocol):
    """The queries over UDP, each with a task."""

    def __init__(self, tasks: asyncio.TaskGroup) -> None:
        self._tasks = tasks
        self._pending = set[asyncio.Task[None]]()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.DatagramTransport, transport)

    def datagram_received(self, data: bytes, addr: tuple[str, int]) -> None:
        if len(self._pending) < MOST_QUERIES:
            task = self._tasks.create_task(self._answer(data, addr), name="DNS query")
            self._pending.add(task)
            task.add_done_callback(self._pending.discard)

    async def _answer(self, query: bytes, client: tuple[str, int]) -> None:
        """Ask one server after the other; without an answer, the client asks again or gives up."""
        for server in await asyncio.to_thread(read_servers):
            with suppress(OSError, TimeoutError):
                async with asyncio.timeout(_ANSWERED_WITHIN_S):
                    answer = await _ask(query, server)
                self._transport.sendto(answer, client)
                return


async def _ask(query: bytes, server: Upstream) -> bytes:
    """Return the server's answer, which has the query's id; others are passed over."""
    loop = asyncio.get_running_loop()
    family = socket.AF_INET6 if ":" in server.host else socket.AF_INET
    with socket.socket(family, socket.SOCK_DGRAM) as asking:
        asking.setblocking(False)
        # The kernel drops what does not come from there.
        await loop.sock_connect(asking, (server.host, server.port))
        await loop.sock_sendall(asking, query)
        while True:
            answer = await loop.sock_recv(asking, _MOST_BYTES)
            if answer[:2] == query[:2]:
                return answer


async def _relay(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    for server in await asyncio.to_thread(read_servers):
        try:
            async with asyncio.timeout(_ANSWERED_WITHIN_S):
                upstream, sending = await asyncio.open_connection(server.host, server.port)
        except (OSError, TimeoutError):
            continue
        try:
            async with asyncio.TaskGroup() as group:
                group.create_task(_pass_on(reader, sending), name="DNS queries")
                group.create_task(_pass_on(upstream, writer), name="DNS answers")
        except* OSError:
            pass  # one of the two has gone
        finally:
            sending.close()
        return


async def _pass_on(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    while data := await reader.read(_MOST_BYTES):
        writer.write(data)
        await writer.drain()
    with suppress(OSError):
        writer.write_eof()


def read_servers(path: Path = _RESOLV_CONF) -> Sequence[Upstream]:
    """Return the machine's DNS servers; without any, its own, as the C library does."""
    try:
        text = path.read_text(errors="replace")
    except OSError:
        return _DEFAULT
    return parse_resolv_conf(text).nameservers or _DEFAULT
