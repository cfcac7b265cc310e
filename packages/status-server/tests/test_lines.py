"""Lines of metrics and their conversion, by property: parsers read back what was meant."""

import math
import re
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

import pytest
from hypothesis import given
from hypothesis import strategies as st
from prometheus_client.openmetrics.parser import (
    text_string_to_metric_families as read_openmetrics,
)
from prometheus_client.parser import text_string_to_metric_families as read_text

from mesh_status_server import Kind, Metric, Sample, render
from mesh_status_server.metrics._lines import (
    badly_begun_line,
    first_bad_line,
    openmetrics_as_text,
    text_as_openmetrics,
    without_end,
)

names = st.from_regex(r"[a-z][a-z_]{0,20}[a-z](_total)?", fullmatch=True)
texts = st.text(st.characters(exclude_categories=["Cs", "Cc"]) | st.sampled_from('\n"\\{},=# '))
values = st.floats(allow_nan=False) | st.integers(-(2**53), 2**53)
metrics = st.builds(
    lambda name, kind, text, samples: Metric(
        name=name, kind=kind, text=text, samples=tuple(samples)
    ),
    names,
    st.sampled_from([Kind.COUNTER, Kind.GAUGE]),
    texts,
    st.lists(
        st.builds(lambda v, t: Sample(value=v, labels={"path": t}), values, texts),
        min_size=1,
        unique_by=lambda sample: sample.labels["path"],
    ),
)


def meant(metric: Metric) -> list[tuple[str, dict[str, str], float]]:
    return [(metric.name, dict(each.labels), float(each.value)) for each in metric.samples]


def read_as_openmetrics(page: bytes) -> list[tuple[str, dict[str, str], float]]:
    found = read_openmetrics((page + b"# EOF\n").decode())  # type: ignore[no-untyped-call]
    return [(s.name, s.labels, float(s.value)) for metric in found for s in metric.samples]


def read_as_text(page: bytes) -> list[tuple[str, dict[str, str], float]]:
    found = read_text(page.decode())
    return [(s.name, s.labels, float(s.value)) for metric in found for s in metric.samples]


def is_readable(metric: Metric) -> bool:
    """Whether the strict parser takes a counter's value, which is neither negative nor NaN."""
    is_total = metric.kind is Kind.COUNTER and metric.name.endswith("_total")
    return not is_total or all(each.value >= 0 for each in metric.samples)


@given(metrics.filter(is_readable))
def test_own_metrics_have_the_same_samples_in_both_formats(metric: Metric) -> None:
    assert read_as_openmetrics(render([metric], openmetrics=True)) == meant(metric)


@given(metrics.filter(is_readable))
def test_text_becomes_openmetrics_with_the_same_samples(metric: Metric) -> None:
    page = render([metric]) + b"\n# a comment\n"
    assert read_as_openmetrics(text_as_openmetrics(page)) == meant(metric)


@given(metrics.filter(is_readable))
def test_openmetrics_becomes_text_with_the_same_samples(metric: Metric) -> None:
    page = render([metric], openmetrics=True) + b"# UNIT a seconds\n# EOF\n"
    read = read_as_text(openmetrics_as_text(page))
    # The parser of text has a name of its own for counters that lack the ending.
    assert [(labels, value) for _, labels, value in read] == [
        (labels, value) for _, labels, value in meant(metric)
    ]


@given(metrics)
def test_every_line_that_is_written_is_known_as_one(metric: Metric) -> None:
    for page in (render([metric]), render([metric], openmetrics=True)):
        assert first_bad_line(page) is None
        assert badly_begun_line(page) is None


@pytest.mark.parametrize(
    "line",
    [
        b"a 1",
        b"a 1 1700000000000",
        b"a{} NaN",
        b'a{b="}"} +Inf',
        b'{"with.dots",b="c"} 1',
        b'a{b="c d",e="f\\"}"}  1e-3\t',
        b'a_bucket{le="1"} 5 1.5 # {trace_id="x y"} 0.5 1700000000.123',
        b"# anything",
        b"",
        b"   ",
        b"name:of:rule 0x1p3",
    ],
)
def test_lines_of_metrics_are_known(line: bytes) -> None:
    assert first_bad_line(b"a 1\n" + line + b"\n" + b"b 2\n") is None


@pytest.mark.parametrize(
    "line",
    [b"<html>", b"not found", b"a", b"a 1 2 3", b'{"up": true}', b"a{b 1", b"1 2", b"a 1\r", b"]"],
)
def test_other_lines_are_found(line: bytes) -> None:
    assert first_bad_line(b"a 1\n" + line + b"\n" + b"b 2\n") == line


def test_bad_beginnings_are_found_wherever_they_are() -> None:
    good = b"a 1\n" * 1000
    assert badly_begun_line(good) is None
    assert badly_begun_line(good + b"<p>\n" + good) == b"<p>"
    assert badly_begun_line(b"<p>\n" + good) == b"<p>"
    assert badly_begun_line(b"") is None


@given(st.binary(max_size=200))
def test_no_bytes_are_too_much_for_the_conversions(data: bytes) -> None:
    page = data + b"\n"
    openmetrics_as_text(page)
    text_as_openmetrics(page)
    first_bad_line(page)
    assert b"\n# EOF\n" not in b"\n" + without_end(page)


class _TooMuch(Exception):
    pass


@contextmanager
def bounded(cpu_s: float) -> Iterator[None]:
    """End the block if it takes so much of the processor; matching looks for signals, too."""

    def end(_number: int, _frame: FrameType | None) -> None:
        raise _TooMuch

    before = signal.signal(signal.SIGVTALRM, end)
    signal.setitimer(signal.ITIMER_VIRTUAL, cpu_s)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_VIRTUAL, 0)
        signal.signal(signal.SIGVTALRM, before)


PATIENCE_CPU_S = 20
"""A megabyte takes some hundredths of that; an expression that goes back and forth, hours."""


def test_the_bound_ends_an_expression_that_goes_back_and_forth() -> None:
    with pytest.raises(_TooMuch), bounded(0.2):
        re.match(rb"(a|aa)+$", b"a" * 100 + b"b")


@pytest.mark.parametrize("unit", [b"a{", b"} ", b'"', b" 1", b"\\", b"# {", b"a{} ", b"{} 1 "])
def test_a_hostile_line_costs_no_more_than_its_length(unit: bytes) -> None:
    line = unit * (1_000_000 // len(unit)) + b"\n"
    with bounded(PATIENCE_CPU_S):
        first_bad_line(line)
        openmetrics_as_text(line)
        text_as_openmetrics(line)


def test_exemplars_units_and_seconds_are_not_for_text() -> None:
    page = (
        b"# TYPE a histogram\n# UNIT a seconds\n# HELP a Text.\n"
        b'a_bucket{le="1.0",b="# {"} 5 1700000000.123 # {trace_id="x y"} 0.5 1.0\n'
        b'a_bucket{le="+Inf",b="# {"} 5 # {trace_id="x y"} 0.5\n'
        b'# TYPE b unknown\nb 1\n# TYPE c info\nc_info{v="1"} 1\n# EOF\n'
    )
    assert openmetrics_as_text(page) == (
        b"# TYPE a histogram\n# HELP a Text.\n"
        b'a_bucket{le="1.0",b="# {"} 5 1700000000123\n'
        b'a_bucket{le="+Inf",b="# {"} 5\n'
        b'# TYPE b untyped\nb 1\n# TYPE c_info gauge\nc_info{v="1"} 1\n'
    )


def test_a_carriage_return_in_a_label_ends_no_line() -> None:
    assert openmetrics_as_text(b'a{x="b\rc"} 1\n') == b'a{x="b\rc"} 1\n'


def test_types_fit_the_names_of_samples_in_openmetrics() -> None:
    page = (
        b"# HELP a_total Text.\n# TYPE a_total counter\na_total 1\n\n# TYPE b counter\nb 1\n"
        b"# TYPE c untyped\nc 1\n# TYPE d gauge\nd 1\n# EOF\n"
    )
    assert text_as_openmetrics(page) == (
        b"# TYPE a counter\na_total 1\n# TYPE b unknown\nb 1\n"
        b"# TYPE c unknown\nc 1\n# TYPE d gauge\nd 1\n"
    )


def test_special_values_are_spelled_as_the_formats_have_them() -> None:
    samples = tuple(
        Sample(value=value, labels={"n": str(value)}) for value in (math.inf, -math.inf, math.nan)
    )
    metric = Metric(name="a", kind=Kind.GAUGE, text="b", samples=samples)
    page = render([metric], openmetrics=True)
    assert b" +Inf\n" in page
    assert b" -Inf\n" in page
    assert b" NaN\n" in page
    assert len(read_as_openmetrics(page)) == 3
