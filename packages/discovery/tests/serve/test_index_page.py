"""`GET /` of the monitoring port says what is there."""

import re
from collections.abc import Awaitable, Callable
from html.parser import HTMLParser
from pathlib import Path

import aiohttp
import pytest

from planes import Plane

StartPlane = Callable[..., Awaitable[Plane]]
BROWSER = "text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8"


async def fetched(plane: Plane, path: str, **headers: str) -> tuple[int, str, str]:
    async with (
        aiohttp.ClientSession() as session,
        session.get(f"http://{plane.monitoring}{path}", headers=headers) as response,
    ):
        return response.status, response.content_type, await response.text()


@pytest.fixture
async def plane(config_dir: Path, start_plane: StartPlane) -> Plane:
    return await start_plane(config_dir)


class Page(HTMLParser):
    """The words and the links of a page, and the tags that are in it."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.links: list[str] = []
        self.tags: set[str] = set()
        self.words = ""
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.add(tag)
        self.links += [value or "" for name, value in attrs if name == "href"]

    def handle_data(self, data: str) -> None:
        self.words += data


def listed(text: str) -> dict[str, str]:
    """The sentence of each path."""
    return dict(re.findall(r"^(/\S*) +(\S.*)$", text, re.MULTILINE))


@pytest.mark.parametrize("accept", ["*/*", "text/plain", "application/json", ""])
async def test_each_page_has_a_sentence_and_answers(plane: Plane, accept: str) -> None:
    status, kind, text = await fetched(plane, "/", Accept=accept)
    assert (status, kind) == (200, "text/plain")
    pages = listed(text)
    assert {"/", "/metrics", "/version", "/debug/syncz"} < pages.keys()
    for path, sentence in pages.items():
        assert re.fullmatch(r"[A-Z][^.]*\.", sentence)
        answer, _, said = await fetched(plane, path)
        if "?proxyID=" in path:
            assert answer == 404
            assert "\nno proxy 'ID' is connected; " in said
        else:
            assert answer == 200, path


async def test_a_browser_gets_the_same_with_links(plane: Plane) -> None:
    status, kind, page = await fetched(plane, "/", Accept=BROWSER)
    assert (status, kind) == (200, "text/html")
    found = Page(page)
    assert "script" not in found.tags
    pages = listed((await fetched(plane, "/"))[2])
    assert all(path in found.words and said in found.words for path, said in pages.items())
    assert found.links == [path for path in pages if "?" not in path]


async def test_a_page_that_is_not_listed_is_not_there(plane: Plane) -> None:
    assert (await fetched(plane, "/debug"))[0] == 404
    assert (await fetched(plane, "/index.html"))[0] == 404
