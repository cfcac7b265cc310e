"""Traffic through an Envoy, from a process that changes of Envoy's configuration do not stall.

Answers requests as the upstream, on the port it prints first. A line with Envoy's port makes it
send requests, on connections that stay and on new ones, until its input ends; then it prints how
many had which outcome, as JSON.
"""

from __future__ import annotations

import asyncio
import json
import sys
from collections import Counter
from contextlib import suppress

KEPT, NEW = 4, 2
"""Connections that stay, so that they come to be on listeners that drain; and new ones."""


async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    with suppress(asyncio.IncompleteReadError, ConnectionError):
        while await reader.readuntil(b"\r\n\r\n"):
            writer.write(b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok")
            await writer.drain()
    writer.close()


class Loader:
    """Requests one after another, on one connection or each on its own."""

    def __init__(self, port: int, outcomes: Counter[str], *, keep: bool) -> None:
        self._port = port
        self._outcomes = outcomes
        self._keep = keep
        self._connection: tuple[asyncio.StreamReader, asyncio.StreamWriter] | None = None

    async def run(self, stop: asyncio.Event) -> None:
        while not stop.is_set():
            self._outcomes[await self._request()] += 1
        self._close()

    async def _request(self) -> str:
        reused = self._connection is not None
        try:
            if self._connection is None:
                self._connection = await asyncio.open_connection("127.0.0.1", self._port)
            reader, writer = self._connection
            writer.write(b"GET / HTTP/1.1\r\nhost: x\r\n\r\n")
            head = (await reader.readuntil(b"\r\n\r\n")).decode().lower()
            length = int(head.partition("content-length: ")[2].partition("\r\n")[0] or 0)
            await reader.readexactly(length)
        except (OSError, asyncio.IncompleteReadError) as error:
            self._close()
            # Between two requests a server may end a connection; every client then opens another.
            return "ended between requests" if reused else type(error).__name__
        if not self._keep or "connection: close" in head:
            self._close()
        return head.split(" ", 2)[1]

    def _close(self) -> None:
        if self._connection is not None:
            self._connection[1].close()
            self._connection = None


async def main() -> None:
    outcomes: Counter[str] = Counter()
    stop = asyncio.Event()
    upstream = await asyncio.start_server(answer, "127.0.0.1", 0)
    sys.stdout.write(f"{upstream.sockets[0].getsockname()[1]}\n")
    sys.stdout.flush()
    port = int(await asyncio.to_thread(sys.stdin.readline))
    loaders = [Loader(port, outcomes, keep=number < KEPT) for number in range(KEPT + NEW)]
    tasks = [asyncio.create_task(loader.run(stop)) for loader in loaders]
    await asyncio.to_thread(sys.stdin.read)
    stop.set()
    await asyncio.wait(tasks)
    sys.stdout.write(json.dumps(outcomes) + "\n")


if __name__ == "__main__":
    asyncio.run(main())
