"""The source of the README, written as somebody outside writes one, runs a control plane."""

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import aiohttp

from mesh_discovery import Address, DiscoveryConfig, MemorySource, ObjectSource, running

README = Path(__file__).parents[2] / "README.md"


def source_of_readme(lines: AsyncIterator[bytes]) -> ObjectSource:
    _, _, after = README.read_text().partition("```python source\n")
    names: dict[str, Any] = {}
    exec(after.partition("```")[0], names)  # noqa: S102  our own document
    source: ObjectSource = names["JsonLines"](lines)
    return source


def entry(name: str, **spec: Any) -> Any:
    ports = [{"number": 80, "name": "http", "protocol": "HTTP"}]
    return {
        "apiVersion": "networking.istio.io/v1",
        "kind": "ServiceEntry",
        "metadata": {"name": name},
        "spec": {"hosts": [f"{name}.test"], "resolution": "NONE", "ports": ports, **spec},
    }


async def test_its_objects_are_served_beside_those_in_memory_and_its_mistakes_are_shown(
    tmp_path: Path, free_port: Callable[..., int]
) -> None:
    pipe = asyncio.StreamReader()
    source = source_of_readme(pipe)
    monitoring = Address(host="127.0.0.1", port=free_port(), flag="monitoring")
    config = DiscoveryConfig(ca_dir=tmp_path / "ca", monitoring=monitoring)
    memory = MemorySource([entry("kept")])

    async with (
        asyncio.timeout(30),
        running(config, sources=[memory, source]) as plane,
        aiohttp.ClientSession() as session,
    ):

        async def page(path: str) -> Any:
            async with session.get(f"http://{plane.monitoring}{path}") as response:
                return await response.json()

        async def names() -> set[str]:
            return {each["name"] for each in (await page("/debug/configz"))["objects"]}

        async def until(condition: Callable[[Any], bool], path: str) -> None:
            while not condition(await page(path)):
                await asyncio.to_thread(lambda: None)

        assert await names() == {"kept"}
        pipe.feed_data(json.dumps(entry("a")).encode() + b"\n")
        await until(lambda now: len(now["objects"]) == 2, "/debug/configz")
        assert await names() == {"kept", "a"}

        pipe.feed_data(json.dumps(entry("b", resolution="STATICS")).encode() + b"\n")
        await until(lambda now: bool(now["wrong_files"]), "/debug/status")
        (wrong,) = (await page("/debug/status"))["wrong_files"]
        assert (wrong["file"], wrong["problems"][0]["field"]) == ("lines", "spec.resolution")
        assert await names() == {"kept", "a"}

        pipe.feed_data(json.dumps(entry("kept")).encode() + b"\n")
        await until(lambda now: "a second" in str(now["wrong_files"]), "/debug/status")
        assert await names() == {"kept", "a"}
