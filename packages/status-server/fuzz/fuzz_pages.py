"""Any bytes as an application's page of metrics, and as the headers of a scraper and a page."""

from __future__ import annotations

from collections.abc import Iterator

from mesh_status_server.metrics._lines import (
    badly_begun_line,
    first_bad_line,
    openmetrics_as_text,
    text_as_openmetrics,
    without_end,
)
from mesh_status_server.metrics._negotiation import accepted, format_of


def check(data: bytes) -> None:
    """Good pages stay good in the other format; a header always has a meaning."""
    kind, page = data[:1], data[1:]
    if kind == b"h":
        text = page.decode("latin-1")
        accepted(text)
        format_of(text)
        return
    page = page if page.endswith(b"\n") else page + b"\n"
    bad = first_bad_line(page)
    assert bad is None or bad in page
    begun = badly_begun_line(page)
    assert begun is None or begun in page
    if bad is not None:
        return
    assert begun is None
    for other in (text_as_openmetrics(page), openmetrics_as_text(page)):
        assert badly_begun_line(other) is None
        assert not other or other.endswith(b"\n")
    assert b"\n# EOF\n" not in b"\n" + without_end(page)


def originals() -> Iterator[bytes]:
    """Pages in both formats, headers of Prometheus."""
    yield (
        b"p# HELP http_requests_total Requests.\n# TYPE http_requests_total counter\n"
        b'http_requests_total{code="200",path="a\\"b}"} 1027 1395066363000\n\nup 1\nx NaN\ny +Inf\n'
    )
    yield b'p# TYPE a counter\n# UNIT a seconds\na_total{x="y"} 1 123.4 # {trace="1"} 2 3\n# EOF\n'
    yield b"happlication/openmetrics-text;version=1.0.0,text/plain;version=0.0.4;q=0.5,*/*;q=0.1"
