"""Servers that say what a test lets them say."""

import asyncio
import sys
from collections.abc import AsyncIterator
from contextlib import suppress
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent / "support"))

from scrape_peers import Connection, Serve


@pytest.fixture
async def serve() -> AsyncIterator[Serve]:
    """Servers on loopback that run for as long as the test."""
    tasks: set[asyncio.Task[None]] = set()
    servers: list[asyncio.Server] = []

    async def start(connection: Connection) -> int:
        async def handle(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            task = asyncio.current_task()
            assert task is not None
            tasks.add(task)
            try:
                with suppress(ConnectionError, asyncio.IncompleteReadError):
                    await connection(reader, writer)
            finally:
                tasks.discard(task)
                writer.transport.abort()

        server = await asyncio.start_server(handle, "127.0.0.1", 0)
        servers.append(server)
        port: int = server.sockets[0].getsockname()[1]
        return port

    yield start
    for server in servers:
        server.close()
    for task in tasks:
        task.cancel()
    if tasks:
        await asyncio.wait(tasks)
