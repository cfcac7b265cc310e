"""The control plane of the README, with a real Envoy behind it."""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

PYTHON = os.environ.get("XDS_README_PYTHON", sys.executable)
"""What runs the program: for instance an environment that has this package and nothing else."""

README = Path(__file__).parents[2] / "README.md"


def program() -> str:
    """The first Python block."""
    _, _, after = README.read_text().partition("```python\n")
    return after.partition("```")[0]


def test_it_has_thirty_lines() -> None:
    code = program().partition("EDS =")[2]
    assert len([line for line in code.splitlines() if line]) <= 30


@asynccontextmanager
async def says(word: str) -> AsyncIterator[int]:
    async def answer(_reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(word.encode())
        writer.close()

    server = await asyncio.start_server(answer, "127.0.0.1", 0)
    async with server:
        yield server.sockets[0].getsockname()[1]


async def hear(port: int) -> str:
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    said = await reader.read()
    writer.close()
    await writer.wait_closed()
    return said.decode()


async def test_it_feeds_envoy(tmp_path: Path, real_envoy: Any, free_port: Any) -> None:
    xds, port = free_port(), real_envoy.port
    source = program().replace("18000", str(xds)).replace("10000", str(port))
    (tmp_path / "control_plane.py").write_text(source)
    process = await asyncio.create_subprocess_exec(
        PYTHON, tmp_path / "control_plane.py", stdin=asyncio.subprocess.PIPE
    )
    assert process.stdin is not None
    try:
        async with says("one") as one, says("two") as two:
            process.stdin.write(f"127.0.0.1:{one}\n".encode())
            address = {"socket_address": {"address": "127.0.0.1", "port_value": xds}}
            async with real_envoy.running(address, node_id="my-envoy"):
                await real_envoy.until(lambda: hear(port), "one")
                process.stdin.write(f"127.0.0.1:{two}\n".encode())
                await real_envoy.until(lambda: hear(port), "two")
    finally:
        process.stdin.close()
        await process.wait()
