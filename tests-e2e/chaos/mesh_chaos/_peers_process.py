"""Peers that take more than their share, in a process of their own.

It ends by SIGTERM, or with its standard input. Its argument is JSON, of either form:

    {"unread": {"address": [host, port], "count": N, "token": file, "prefix": pod}}
    {"idle": {"addresses": [[host, port], ...], "count": N, "source": host}}
"""

import asyncio
import json
import sys
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[2] / "support"))

from mesh_e2e import idle_connections, stalled_streams


async def main(what: dict[str, Any]) -> None:
    async with AsyncExitStack() as stack:
        if unread := what.get("unread"):
            streams = stalled_streams(
                tuple(unread["address"]),
                unread["count"],
                node_prefix=unread["prefix"],
                token=Path(unread["token"]),
            )
            await stack.enter_async_context(streams)
        if idle := what.get("idle"):
            addresses = [(host, port) for host, port in idle["addresses"]]
            silent = idle_connections(addresses, idle["count"], source=idle["source"])
            await stack.enter_async_context(silent)
        reader = asyncio.StreamReader()
        loop = asyncio.get_running_loop()
        await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), sys.stdin)
        await reader.read()


if __name__ == "__main__":
    asyncio.run(main(json.loads(sys.argv[1])))
