import io
import json
import logging
from collections.abc import Iterator

import pytest

from mesh_lifecycle import LogLevelError, configure_logging


@pytest.fixture(autouse=True)
def _logging_as_before() -> Iterator[None]:
    root = logging.getLogger()
    handlers, level = root.handlers[:], root.level
    yield
    root.handlers[:] = handlers
    root.setLevel(level)
    for name in ("quiet", "loud"):
        logging.getLogger(name).setLevel(logging.NOTSET)


def test_text_lines_carry_the_facts_behind_the_message() -> None:
    stream = io.StringIO()
    configure_logging(stream=stream)
    logging.getLogger("certclient").info("certificate renewed", extra={"expires_in_s": 43200})
    time, *rest = stream.getvalue().rstrip("\n").split("\t")
    assert time.endswith("Z")
    assert rest == ["info", "certclient", "certificate renewed", "expires_in_s=43200"]


def test_json_lines_parse_and_hold_facts_and_errors() -> None:
    stream = io.StringIO()
    configure_logging(as_json=True, stream=stream)
    try:
        raise OSError("no route")
    except OSError:
        logging.getLogger("xdsproxy").exception("lost", extra={"address": "127.0.0.1:15012"})
    entry = json.loads(stream.getvalue())
    assert (entry["level"], entry["scope"], entry["msg"]) == ("error", "xdsproxy", "lost")
    assert entry["address"] == "127.0.0.1:15012"
    assert "no route" in entry["error"]


def test_levels_are_set_by_logger_with_a_default() -> None:
    stream = io.StringIO()
    configure_logging("default:warn,loud:debug,quiet:none", stream=stream)
    for name in ("other", "loud", "quiet"):
        logging.getLogger(name).debug("debug")
        logging.getLogger(name).error("error")
    lines = [line.split("\t")[1:4] for line in stream.getvalue().splitlines()]
    assert lines == [
        ["error", "other", "error"],
        ["debug", "loud", "debug"],
        ["error", "loud", "error"],
    ]


def test_unknown_level_is_named_with_what_would_be_right() -> None:
    with pytest.raises(LogLevelError, match="'loud:noisy': 'noisy' is not one of debug, info"):
        configure_logging("info,loud:noisy")
