from __future__ import annotations

import logging

import pytest
from hypothesis import given
from hypothesis import strategies as st

from envoy_supervisor.processes._output_log import MAX_LINE_BYTES, OutputLog, parse_line


class Time:
    def __init__(self) -> None:
        self.seconds = 0.0

    def __call__(self) -> float:
        return self.seconds


def make(time: Time, lines_per_s: float = 500) -> OutputLog:
    return OutputLog(pid=lambda: 7, monotonic=time, lines_per_s=lines_per_s)


def test_levels_and_components_are_envoys_own(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG, "envoy_supervisor.envoy")
    output = make(Time())
    output.feed(b"[warning][config] one\\ntwo\n[critical][main] gone\nplain words\n[tra")
    output.feed(b"ce][http2] last")
    output.close()
    assert [(record.levelno, record.getMessage()) for record in caplog.records] == [
        (logging.WARNING, "one\\ntwo"),
        (logging.CRITICAL, "gone"),
        (logging.INFO, "plain words"),
        (logging.DEBUG, "last"),
    ]
    assert [record.name for record in caplog.records] == [
        "envoy config",
        "envoy main",
        "envoy",
        "envoy http2",
    ]


@given(st.lists(st.binary(max_size=50)))
def test_any_bytes_cut_anywhere_are_the_same_lines(pieces: list[bytes]) -> None:
    whole, cut = make(Time()), make(Time())
    whole.feed(b"".join(pieces))
    for piece in pieces:
        cut.feed(piece)
    whole.close()
    cut.close()
    assert whole.recent == cut.recent


def test_a_line_without_end_takes_bounded_memory() -> None:
    output = make(Time())
    for _ in range(100):
        output.feed(b"x" * 10_000)
    output.close()
    assert len(output.recent) == 1
    assert len(output.recent[0].text) < MAX_LINE_BYTES + 100


def test_a_flood_is_counted_and_left_out(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "envoy_supervisor.envoy")
    time = Time()
    output = make(time, lines_per_s=10)
    output.feed(b"[info][main] x\n" * 1000)
    assert len(caplog.records) == 10
    time.seconds = 0.1
    output.feed(b"[info][main] y\n")
    output.close()
    assert [record.getMessage() for record in caplog.records[10:]] == [
        "envoy printed more than is logged",
        "y",
    ]
    assert caplog.records[10].__dict__["lines_left_out"] == 990


def test_bytes_that_are_no_text_are_shown_as_such() -> None:
    assert parse_line(b"[info][main] \xff\xfe").text == "\ufffd\ufffd"


def test_a_line_keeps_the_time_thread_and_place_that_envoy_gives_it(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.DEBUG, "envoy_supervisor.envoy")
    make(Time()).feed(
        b"[1700000000.250000][42][info][upstream][source/common/upstream/cds.cc:12] cds: add 3\n"
    )
    (record,) = caplog.records
    assert (record.name, record.created, record.msecs) == ("envoy upstream", 1700000000.25, 250.0)
    facts = {name: record.__dict__[name] for name in ("caller", "thread_id", "pid")}
    assert facts == {"caller": "source/common/upstream/cds.cc:12", "thread_id": 42, "pid": 7}


@pytest.mark.parametrize(
    ("line", "level", "component", "text"),
    [
        (b'{"level":"warning","scope":"envoy config","msg":"no"}', logging.WARNING, "config", "no"),
        (b'{"level":"error","msg":"no"}', logging.ERROR, "main", "no"),
        (b'{"level":"loud","msg":"no"}', logging.INFO, "", '{"level":"loud","msg":"no"}'),
        (b'{"method":"GET","status":200}', logging.INFO, "", '{"method":"GET","status":200}'),
        (b"[" * 5000, logging.INFO, "", "[" * 5000),
        (b'{"a":' + b"[" * 9000, logging.INFO, "", '{"a":' + "[" * 9000),
    ],
)
def test_json_of_a_users_own_bootstrap_is_read(
    line: bytes, level: int, component: str, text: str
) -> None:
    parsed = parse_line(line)
    assert (parsed.level, parsed.component, parsed.text) == (level, component, text)
