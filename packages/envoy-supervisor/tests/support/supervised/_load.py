"""Requests without pause, and how they end."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from mesh_testkit import until


class Load:
    """Requests over a new connection each, counted by their end; `open` ones have none yet.

    They are open from the call on: Envoy may have accepted a connection before its client hears
    of it.
    """

    def __init__(self, port: int) -> None:
        self.port = port
        self.ends: Counter[str] = Counter()
        self.open = 0

    async def ask(self, path: str) -> str:
        """Say how it ended: answered, refused, cut, or another status than 200."""
        self.open += 1
        try:
            return await self._asked(path)
        except ConnectionRefusedError:
            return "refused"
        except (OSError, asyncio.IncompleteReadError):
            return "cut"
        finally:
            self.open -= 1

    async def _asked(self, path: str) -> str:
        reader, writer = await asyncio.open_connection("127.0.0.1", self.port)
        try:
            writer.write(f"GET {path} HTTP/1.1\r\nhost: a\r\n\r\n".encode())
            status = (await reader.readuntil(b"\r\n\r\n")).split()[1]
            if status != b"200":
                return f"status {status.decode()}"
            await reader.readuntil(b"done")
        finally:
            writer.close()
        return "answered"

    async def work(self) -> None:
        while True:
            self.ends[await self.ask("/quick")] += 1

    async def more(self, count: int = 50) -> None:
        """Wait until that many more have been answered."""
        wanted = self.ends["answered"] + count
        await until(
            lambda: self.ends["answered"] >= wanted,
            what=f"{count} more answers",
            seen=lambda: f"{dict(self.ends)}, {self.open} open",
        )


@asynccontextmanager
async def load_on(port: int, workers: int = 4) -> AsyncIterator[Load]:
    load = Load(port)
    tasks = [asyncio.create_task(load.work(), name="load") for _ in range(workers)]
    try:
        yield load
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.wait(tasks)
