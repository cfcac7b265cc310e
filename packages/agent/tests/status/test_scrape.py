import asyncio
import contextlib
import logging
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from prometheus_client.parser import text_string_to_metric_families

from envoy_supervisor import Address, UnixAddress
from mesh_agent.status._exposition import gauge
from mesh_agent.status._http import http_server
from mesh_agent.status._scrape import Scrapes, scrape_timeout_s
from mesh_testkit import until

LINES = b"# TYPE envoy_cx gauge\n" + b"".join(
    b'envoy_cx{listener="%d"} 1\n' % number for number in range(50_000)
)


class Admin:
    """Envoy's admin interface, that answers with what it is given."""

    def __init__(self, answer: bytes, *, hang: bool = False) -> None:
        self.answer = answer
        self.asked = b""
        self._hang = hang
        self._release = asyncio.Event()

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(ConnectionError, asyncio.IncompleteReadError):
            self.asked = await reader.readuntil(b"\r\n\r\n")
            writer.write(self.answer)
            if self._hang:
                await self._release.wait()
        writer.close()
        with contextlib.suppress(ConnectionError):
            await writer.wait_closed()

    @asynccontextmanager
    async def listening(self) -> AsyncIterator[Address]:
        server = await asyncio.start_server(self.serve, "127.0.0.1", 0)
        try:
            yield Address(host="127.0.0.1", port=server.sockets[0].getsockname()[1])
        finally:
            self._release.set()
            server.close()
            await server.wait_closed()


def good(body: bytes) -> bytes:
    pieces = (body[start : start + 7000] for start in range(0, len(body), 7000))
    chunks = b"".join(b"%x\r\n%s\r\n" % (len(piece), piece) for piece in pieces)
    return b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n" + chunks + b"0\r\n\r\n"


async def scrape(
    envoy: Address | UnixAddress | None, *, request: bytes = b"GET /metrics HTTP/1.1\r\nhost: a"
) -> bytes:
    """What a scraper gets, as the connection carries it, without chunk marks."""
    scrapes = Scrapes(lambda: [gauge("mesh_agent_ready", "Ready.", 1)], envoy=lambda: envoy)
    async with http_server("127.0.0.1", 0, scrapes.answer) as (port, _):
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(request + b"\r\nconnection: close\r\n\r\n")
        head = await reader.readuntil(b"\r\n\r\n")
        assert head.startswith(b"HTTP/1.1 200")
        body = b""
        while b"chunked" in head.lower():
            size = int(await reader.readline(), 16)
            body += await reader.readexactly(size)
            assert await reader.readline() == b"\r\n"
            if size == 0:
                break
        else:
            body = await reader.read()
        writer.close()
        await writer.wait_closed()
        return body


def names(text: bytes) -> dict[str, int]:
    """How many samples there are of each name; fails if Prometheus could not read it."""
    found = text_string_to_metric_families(text.decode())
    return {family.name: len(family.samples) for family in found}


OWN = {
    "mesh_agent_ready": 1,
    "istio_agent_scrapes": 1,
    "istio_agent_scrape_failures": 1,
}


async def test_envoys_metrics_stand_behind_the_agents_own() -> None:
    admin = Admin(good(LINES))
    async with admin.listening() as address:
        text = await scrape(address, request=b"GET /stats?usedonly&filter=a HTTP/1.1\r\nhost: a")
    assert text.endswith(LINES)
    assert names(text) == {**OWN, "envoy_cx": 50_000}
    assert admin.asked.startswith(b"GET /stats/prometheus?usedonly&filter=a HTTP/1.1\r\n")


async def test_an_old_client_gets_them_until_the_connections_end() -> None:
    async with Admin(good(LINES)).listening() as address:
        text = await scrape(address, request=b"GET /metrics HTTP/1.0\r\nhost: a")
    assert names(text) == {**OWN, "envoy_cx": 50_000}


async def test_an_admin_interface_on_a_unix_socket_is_asked_too(socket_dir: Path) -> None:
    path = socket_dir / "admin"
    server = await asyncio.start_unix_server(Admin(good(b"envoy_cx 1\n")).serve, path)
    try:
        assert names(await scrape(UnixAddress(path=path))) == {**OWN, "envoy_cx": 1}
    finally:
        server.close()
        await server.wait_closed()
        path.unlink(missing_ok=True)


async def test_without_an_envoy_there_are_the_agents_own() -> None:
    assert names(await scrape(None)) == OWN


@pytest.mark.parametrize(
    ("answer", "kept"),
    [
        (b"", {}),
        (b"HTTP/1.1 503 Busy\r\ncontent-length: 0\r\n\r\n", {}),
        (b"nonsense\r\n\r\n", {}),
        (b"HTTP/1.1 200 OK\r\ncontent-length: 100\r\n\r\nenvoy_a 1\nenvoy_b 2\nenvoy_", 2),
        (b"HTTP/1.1 200 OK\r\n\r\n" + b"x" * 2_000_000, {}),
    ],
)
async def test_a_scrape_goes_well_and_whole_lines_stay_when_envoy_fails(
    answer: bytes, kept: object, caplog: pytest.LogCaptureFixture
) -> None:
    async with Admin(answer).listening() as address:
        found = names(await scrape(address))
    assert found == {**OWN, **({"envoy_a": 1, "envoy_b": 1} if kept else {})}
    assert [r.getMessage() for r in caplog.records] == [
        "a scrape was answered without all of envoy's metrics"
    ]


async def test_a_refused_connection_is_counted(free_port: Callable[[], int]) -> None:
    address = Address(host="127.0.0.1", port=free_port())
    scrapes = Scrapes(list, envoy=lambda: address)
    async with http_server("127.0.0.1", 0, scrapes.answer) as (port, _):
        texts = []
        for _ in range(2):
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            writer.write(b"GET / HTTP/1.0\r\nhost: a\r\n\r\n")
            texts.append(await reader.read())
            writer.close()
            await writer.wait_closed()
    assert b'istio_agent_scrape_failures_total{type="envoy"} 0\n' in texts[0]
    assert b'istio_agent_scrape_failures_total{type="envoy"} 1\n' in texts[1]
    assert b"istio_agent_scrapes_total 2\n" in texts[1]


async def test_a_silent_envoy_is_given_up_when_the_scraper_would() -> None:
    request = b"GET / HTTP/1.1\r\nhost: a\r\nX-Prometheus-Scrape-Timeout-Seconds: 1"
    found: list[dict[str, int]] = []
    async with Admin(b"HTTP/1.1 200 OK\r\n\r\nenvoy_a 1\n", hang=True).listening() as address:

        async def has_all_that_came() -> bool:
            found.append(names(await scrape(address, request=request)))
            return found[-1] == {**OWN, "envoy_a": 1}

        # On a machine that stands still for a second, nothing has come when the time is up.
        await until(has_all_that_came, what="what came in time", seen=lambda: found[-1])


async def test_a_scraper_that_leaves_is_no_fault_of_envoys(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.INFO)
    scrapes = Scrapes(list, envoy=lambda: address)
    async with Admin(good(LINES * 20)).listening() as address:
        async with http_server("127.0.0.1", 0, scrapes.answer) as (port, _):
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            writer.write(b"GET / HTTP/1.1\r\nhost: a\r\n\r\n")
            await reader.readline()
            writer.transport.abort()
            writer.close()
    assert caplog.records == []


@pytest.mark.parametrize(
    ("text", "seconds"), [("2.5", 2.5), ("1e9", 300), ("0", 10), ("nan", 10), ("soon", 10)]
)
def test_the_scrapers_patience_is_heeded_within_reason(text: str, seconds: float) -> None:
    assert scrape_timeout_s([("x-prometheus-scrape-timeout-seconds", text)]) == seconds
