"""Which format a scraper gets, by headers that scrapers and applications really send."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mesh_status_server.metrics._negotiation import (
    Accepted,
    Format,
    accepted,
    format_of,
    merged_format,
)
from scrape_peers import PROMETHEUS

TEXT_ONLY = Accepted("text/plain;version=0.0.4", openmetrics=False)


@pytest.mark.parametrize(
    ("accept", "expected"),
    [
        ("", TEXT_ONLY),
        ("*/*", TEXT_ONLY),
        ("rubbish", TEXT_ONLY),
        (",;=,;q=", TEXT_ONLY),
        ("text/html,*/*;q=0.8", Accepted("text/plain;version=0.0.4;q=0.8", openmetrics=False)),
        ("application/vnd.google.protobuf;proto=io.prometheus.client.MetricFamily", TEXT_ONLY),
        (
            "application/*",
            Accepted("application/openmetrics-text;version=0.0.1", openmetrics=True),
        ),
        ("application/openmetrics-text;q=0", TEXT_ONLY),
        ("application/openmetrics-text;q=nonsense", TEXT_ONLY),
        (
            "Application/OpenMetrics-Text; version=1.0.0",
            Accepted("Application/OpenMetrics-Text; version=1.0.0", openmetrics=True),
        ),
        (
            PROMETHEUS,
            Accepted(
                "application/openmetrics-text;version=1.0.0;escaping=allow-utf-8;q=0.5,"
                "application/openmetrics-text;version=0.0.1;q=0.4,"
                "text/plain;version=1.0.0;escaping=allow-utf-8;q=0.3,"
                "text/plain;version=0.0.4;q=0.2,text/plain;version=0.0.4;q=0.1",
                openmetrics=True,
            ),
        ),
    ],
)
def test_protobuf_and_wildcards_do_not_reach_applications(accept: str, expected: Accepted) -> None:
    assert accepted(accept) == expected


@given(st.text(st.characters(min_codepoint=32, max_codepoint=255)))
def test_any_header_leads_to_formats(accept: str) -> None:
    found = accepted(accept)
    assert found.forwarded
    assert "protobuf" not in found.forwarded.lower()


@pytest.mark.parametrize(
    ("content_type", "expected"),
    [
        ("text/plain; version=0.0.4; charset=utf-8", Format.TEXT),
        ("text/plain", Format.TEXT),
        ("text/plain; version=1.0.0; escaping=allow-utf-8", Format.TEXT),
        ("", Format.TEXT),
        ("application/openmetrics-text; version=1.0.0; charset=utf-8", Format.OPENMETRICS_1),
        ("application/openmetrics-text;version=0.0.1", Format.OPENMETRICS_0),
        ("application/openmetrics-text", Format.OPENMETRICS_1),
        ("text/html; charset=utf-8", None),
        ("application/json", None),
        ("application/vnd.google.protobuf; proto=io.prometheus.client.MetricFamily", None),
    ],
)
def test_a_page_has_a_format_or_is_none(content_type: str, expected: Format | None) -> None:
    assert format_of(content_type) is expected


def test_the_whole_is_openmetrics_only_if_every_page_is() -> None:
    text, older, newer = Format.TEXT, Format.OPENMETRICS_0, Format.OPENMETRICS_1
    assert merged_format([]) is text
    assert merged_format([newer, text]) is text
    assert merged_format([newer, older]) is older
    assert merged_format([newer, newer]) is newer
