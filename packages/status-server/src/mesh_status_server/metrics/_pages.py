"""The metrics of another process, as whole lines in the format that is wanted."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import NamedTuple

from mesh_status_server._errors import FetchError
from mesh_status_server.http._fetching import Address, Answer, Headers, TcpAddress, fetching
from mesh_status_server.metrics._negotiation import Format, format_of

_MAX_LINE_BYTES = 1024 * 1024
MAX_BYTES = 256 * 1024 * 1024
"""No application has so many metrics; a page without end would never be done."""
SEVERAL_MAX_BYTES = 10 * 1024 * 1024
"""Of each application, where there are several."""


class Source(NamedTuple):
    """A process that serves metrics over HTTP/1.1.

    kind: what its failures are counted under.
    takes_query: whether it gets the scraper's query string, as Envoy does.
    text_only: whether it is asked for Prometheus' text whatever the scraper takes; an application
        is asked for what the scraper takes, and decides the format of the whole.
    is_envoy: whether Istio's metrics among its own are to have Istio's names.
    """

    kind: str
    address: Address
    path: str = "/metrics"
    takes_query: bool = False
    text_only: bool = False
    is_envoy: bool = False

    @property
    def name(self) -> str:
        """The source in a message."""
        return f"{self.address}{self.path}"


def envoy_source(address: Address) -> Source:
    """Return the metrics of an Envoy by its admin interface."""
    return Source(
        "envoy", address, "/stats/prometheus", takes_query=True, text_only=True, is_envoy=True
    )


def application_source(port: int, path: str = "/metrics", *, host: str = "localhost") -> Source:
    """Return the metrics of an application; path: with a query, if it needs one."""
    return Source("application", TcpAddress(host, port), path)


class Page:
    """The lines of a source.

    max_bytes: how long the page may be. is_envoy: Istio's metrics are given Istio's names.
    """

    def __init__(
        self, answer: Answer, page_format: Format, *, max_bytes: int, is_envoy: bool = False
    ) -> None:
        self.format = page_format
        self._is_envoy = is_envoy
        self._answer = answer
        self._max_bytes = max_bytes
        self._bytes = 0
        self._line: list[bytes] = []
        self._line_bytes = 0
        self._begun = False

    async def read(self, wanted: Format) -> bytes:
        """Return the next lines, b"" at the end; raises `FetchError`."""
        while piece := await self._answer.read():
            whole, newline, rest = piece.rpartition(b"\n")
            begun = self._taken_line() if newline else b""
            self._line.append(rest)
            self._line_bytes += len(rest)
            if self._line_bytes > _MAX_LINE_BYTES:
                raise FetchError(f"a line is longer than {_MAX_LINE_BYTES} bytes")
            if newline and (lines := self._checked(begun + whole + newline, wanted)):
                return lines
        last = self._taken_line()
        if not last:
            return b""
        if not self._answer.framed:
            raise FetchError("the connection ended within a line")
        return self._checked(last + b"\n", wanted)

    def _taken_line(self) -> bytes:
        """Return the line that has begun; joined once, however small the pieces are."""
        line = b"".join(self._line)
        self._line.clear()
        self._line_bytes = 0
        return line

    def _checked(self, lines: bytes, wanted: Format) -> bytes:
        from mesh_status_server.metrics import _lines

        bad = (_lines.badly_begun_line if self._begun else _lines.first_bad_line)(lines)
        if bad is not None:
            raise FetchError(f"{bad.decode(errors='replace')!r} is no line of metrics")
        self._begun = True
        self._bytes += len(lines)
        if self._bytes > self._max_bytes:
            raise FetchError(f"its page is longer than {self._max_bytes} bytes")
        lines = _lines.without_end(lines)
        if self._is_envoy:
            lines = _lines.with_istios_names(lines)
        if self.format.is_openmetrics and not wanted.is_openmetrics:
            return _lines.openmetrics_as_text(lines)
        if wanted.is_openmetrics and not self.format.is_openmetrics:
            return _lines.text_as_openmetrics(lines)
        return lines


@asynccontextmanager
async def opened(
    source: Source, *, query: str, headers: Headers, max_bytes: int
) -> AsyncIterator[Page]:
    """Ask a source for its metrics; the page is there when the head of the answer has come.

    headers: those of the scraper that are passed on. Raises `FetchError`.
    """
    target = source.path
    if source.takes_query and query:
        target = f"{target}?{query}"
    async with fetching(
        source.address,
        target,
        headers=[*headers, ("accept-encoding", "identity")],
        follow_redirects=not source.text_only,
    ) as answer:
        if answer.status != 200:
            raise FetchError(f"the answer has status {answer.status}")
        if (encoding := answer.header("content-encoding").lower()) not in ("", "identity"):
            raise FetchError(f"the answer is encoded as {encoding!r}, which was not asked for")
        content_type = answer.header("content-type")
        if (page_format := format_of(content_type)) is None:
            raise FetchError(
                f"the answer is {content_type[:100]!r}; metrics are text/plain or "
                "application/openmetrics-text"
            )
        yield Page(answer, page_format, max_bytes=max_bytes, is_envoy=source.is_envoy)
