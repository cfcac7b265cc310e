"""Processes whose metrics are merged, and the scraper that asks for them."""

import asyncio
import gzip
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import TypeAlias

from mesh_status_server import (
    MergedMetrics,
    Metric,
    Source,
    TcpAddress,
    application_source,
    envoy_source,
    gauge,
    http_server,
)

OPENMETRICS = "application/openmetrics-text; version=1.0.0; charset=utf-8"
TEXT = "text/plain; version=0.0.4; charset=utf-8"
PROMETHEUS = (
    "application/vnd.google.protobuf;proto=io.prometheus.client.MetricFamily;encoding=delimited;"
    "q=0.6,application/openmetrics-text;version=1.0.0;escaping=allow-utf-8;q=0.5,"
    "application/openmetrics-text;version=0.0.1;q=0.4,text/plain;version=1.0.0;"
    "escaping=allow-utf-8;q=0.3,text/plain;version=0.0.4;q=0.2,*/*;q=0.1"
)
ENVOY_LINES = (
    b"# TYPE envoy_cx counter\nenvoy_cx{} 4\n\n# TYPE envoy_rq_total counter\nenvoy_rq_total 5\n"
)

Connection: TypeAlias = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]
Serve: TypeAlias = Callable[[Connection], Awaitable[int]]


def answer(
    body: bytes, content_type: str = TEXT, *, status: str = "200 OK", more: str = ""
) -> bytes:
    """Returns a whole answer of known length."""
    head = f"HTTP/1.1 {status}\r\ncontent-type: {content_type}\r\n{more}"
    return f"{head}content-length: {len(body)}\r\n\r\n".encode() + body


def chunked(body: bytes, content_type: str = TEXT, *, size: int = 4096) -> bytes:
    """Returns a whole answer in chunks."""
    pieces = (body[start : start + size] for start in range(0, len(body), size))
    chunks = b"".join(b"%x\r\n%b\r\n" % (len(piece), piece) for piece in pieces)
    head = f"HTTP/1.1 200 OK\r\ncontent-type: {content_type}\r\ntransfer-encoding: chunked\r\n\r\n"
    return head.encode() + chunks + b"0\r\n\r\n"


class Peer:
    """A process that answers each request with the same bytes.

    hang: keep the connection open behind them. answers: by path, in place of `says`.
    """

    def __init__(self, says: bytes = b"", *, hang: bool = False) -> None:
        self.says = says
        self.hang = hang
        self.answers: dict[str, bytes] = {}
        self.requests: list[str] = []

    async def __call__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        request = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1")
        self.requests.append(request)
        writer.write(self.answers.get(request.split()[1], self.says))
        await writer.drain()
        if self.hang:
            await asyncio.Event().wait()
        writer.close()
        await writer.wait_closed()

    @property
    def headers(self) -> dict[str, str]:
        """Of the last request, with names in lower case."""
        lines = self.requests[-1].split("\r\n")[1:]
        pairs = (line.partition(": ") for line in lines if line)
        return {name.lower(): value for name, _, value in pairs}


@dataclass(frozen=True, kw_only=True)
class Scraped:
    """What a scraper got."""

    status: int
    headers: dict[str, str]
    body: bytes

    @property
    def content_type(self) -> str:
        return self.headers["content-type"]

    @property
    def lines(self) -> list[str]:
        return self.body.decode().splitlines()


async def get(
    port: int,
    path: str = "/metrics",
    *,
    host: str = "127.0.0.1",
    method: str = "GET",
    **headers: str,
) -> Scraped:
    """Ask as a scraper does; `_` in the name of a header stands for `-`."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port, local_addr=(host, 0))
    try:
        lines = [f"{name.replace('_', '-')}: {value}" for name, value in headers.items()]
        head = [f"{method} {path} HTTP/1.1", "host: a", "connection: close", *lines]
        writer.write("\r\n".join([*head, "", ""]).encode())
        answered = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1")
        first, *rest = answered.strip().split("\r\n")
        pairs = {name.lower(): value for name, _, value in (line.partition(": ") for line in rest)}
        body = await _body(reader, pairs) if method != "HEAD" else await reader.read()
    finally:
        writer.close()
        with suppress(ConnectionError):
            await writer.wait_closed()
    if pairs.get("content-encoding") == "gzip":
        body = gzip.decompress(body)
    return Scraped(status=int(first.split()[1]), headers=pairs, body=body)


async def _body(reader: asyncio.StreamReader, headers: dict[str, str]) -> bytes:
    if headers.get("transfer-encoding") != "chunked":
        return await reader.read()
    pieces = []
    while size := int(await reader.readline(), 16):
        pieces.append(await reader.readexactly(size))
        assert await reader.readline() == b"\r\n"
    assert await reader.readline() == b"\r\n"
    return b"".join(pieces)


def own_metrics() -> list[Metric]:
    return [gauge("own_up", "1 while the program runs.", 1)]


@dataclass(frozen=True, kw_only=True)
class Merging:
    """A program that merges the metrics of these ports."""

    envoy: int | None = None
    applications: Sequence[int | Source] = ()

    def sources(self) -> list[Source]:
        envoys = [] if self.envoy is None else [envoy_source(TcpAddress("127.0.0.1", self.envoy))]
        return envoys + [
            each if isinstance(each, Source) else application_source(each)
            for each in self.applications
        ]

    async def scrape(self, **headers: str) -> Scraped:
        """Scrape it once."""
        _, scraped = await self.scrape_and_count(**headers)
        return scraped

    async def scrape_and_count(self, **headers: str) -> tuple[dict[str, int], Scraped]:
        """Scrape it once, and return the failures above zero too."""
        merged = MergedMetrics(own_metrics, sources=self.sources)
        async with http_server("127.0.0.1", 0, merged.answer) as (port, _):
            scraped = await get(port, **headers)
        assert merged.counts.served == 1
        return {kind: count for kind, count in merged.counts.failures.items() if count}, scraped
