"""The page of metrics is in the format that the scraper takes."""

from collections.abc import Awaitable, Callable
from pathlib import Path

import aiohttp
from prometheus_client.openmetrics.parser import text_string_to_metric_families as openmetrics
from prometheus_client.parser import text_string_to_metric_families as text

from planes import Plane

StartPlane = Callable[..., Awaitable[Plane]]
PROMETHEUS = (
    "application/openmetrics-text;version=1.0.0,application/openmetrics-text;version=0.0.1;q=0.75,"
    "text/plain;version=0.0.4;q=0.5,*/*;q=0.1"
)


async def scraped(plane: Plane, accept: str) -> tuple[str, str]:
    async with (
        aiohttp.ClientSession() as session,
        session.get(f"http://{plane.monitoring}/metrics", headers={"Accept": accept}) as response,
    ):
        assert response.status == 200
        return response.headers["Content-Type"], await response.text()


async def test_openmetrics_is_given_to_a_scraper_that_takes_it(
    config_dir: Path, start_plane: StartPlane
) -> None:
    plane = await start_plane(config_dir)
    content_type, page = await scraped(plane, PROMETHEUS)
    assert content_type.startswith("application/openmetrics-text; version=1.0.0")
    found = openmetrics(page)  # type: ignore[no-untyped-call]
    samples = {each.name for family in found for each in family.samples}
    plain_type, plain = await scraped(plane, "text/plain")
    assert plain_type.startswith("text/plain; version=0.0.4")
    in_text = {each.name for family in text(plain) for each in family.samples}
    assert {each for each in in_text if not each.endswith("_created")} <= samples
    for accept in ("*/*", "", "application/openmetrics-text;version=0.0.1"):
        assert (await scraped(plane, accept))[0] == plain_type
