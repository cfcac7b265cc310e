"""The program of the README: a control plane of objects in memory, with a real Envoy behind it."""

import asyncio
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import aiohttp

from planes import Envoy, eventually, start

README = Path(__file__).parents[2] / "README.md"
CLIENT = "127.92.9"


def program() -> str:
    _, _, after = README.read_text().partition("```python program\n")
    return after.partition("```")[0]


def test_it_has_about_twenty_lines() -> None:
    lines = [each for each in program().splitlines() if each]
    assert 15 < len(lines) <= 24


async def test_it_feeds_envoy_what_its_objects_say(
    tmp_path: Path,
    free_port: Callable[..., int],
    serve_app: Callable[..., Awaitable[int]],
    start_envoy: Callable[..., Awaitable[Envoy]],
    session: aiohttp.ClientSession,
) -> None:
    xds, port = free_port(), free_port(f"{CLIENT}.3")
    one, two = [await serve_app(name, "127.0.0.1") for name in ("one", "two")]
    source = program()
    for there, here in ("15010", xds), ("8000", port), ("8080", one):
        assert source.count(there) == 1, there
        source = source.replace(there, str(here))
    (tmp_path / "plane.py").write_text(source)
    plane = await start(sys.executable, "plane.py", cwd=tmp_path, stdin=asyncio.subprocess.PIPE)
    try:
        await start_envoy("client", CLIENT, f"127.0.0.1:{xds}")

        async def call() -> Any:
            url = f"http://{CLIENT}.3:{port}/"
            async with session.get(url, headers={"Host": "web.test"}) as response:
                return (await response.json())["app"] if response.status == 200 else None

        await eventually(call, wanted="one", what="the first object")
        assert plane.process.stdin is not None
        plane.process.stdin.write(f"127.0.0.1:{two}\n".encode())
        await eventually(call, wanted="two", what="the object put in its place")
        plane.process.stdin.close()
        assert await plane.process.wait() == 0
    finally:
        await plane.end("the program")
