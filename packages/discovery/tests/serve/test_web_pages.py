"""A web page in a browser on the control plane's machine reads none of its debug pages."""

from collections.abc import Awaitable, Callable
from pathlib import Path

import aiohttp
import pytest

from planes import Plane

StartPlane = Callable[..., Awaitable[Plane]]
PAGES = ("status", "distribution", "syncz", "configz", "registryz", "config_dump", "ndsz")


async def status_of(plane: Plane, path: str, **headers: str) -> int:
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    async with (
        aiohttp.ClientSession() as session,
        session.get(f"http://{plane.monitoring}{path}", headers=named) as response,
    ):
        return response.status


@pytest.fixture
async def plane(config_dir: Path, start_plane: StartPlane) -> Plane:
    return await start_plane(config_dir)


async def test_a_web_page_reads_no_debug_page(plane: Plane) -> None:
    for page in PAGES:
        path = f"/debug/{page}"
        assert await status_of(plane, path, Host="evil.example:15014") == 403, path
        assert await status_of(plane, path, Origin="http://evil.example") == 403, path
        assert await status_of(plane, path, Origin="null") == 403, path
        assert await status_of(plane, path, Sec_Fetch_Site="cross-site") == 403, path
    assert await status_of(plane, "/debug/configz") == 200
    assert await status_of(plane, "/debug/configz", Host="localhost:9999") == 200


async def test_pages_for_all_are_answered_whatever_the_host(plane: Plane) -> None:
    assert await status_of(plane, "/metrics", Host="istiod.istio-system:15014") == 200
    assert await status_of(plane, "/version", Host="10.0.0.7") == 200
