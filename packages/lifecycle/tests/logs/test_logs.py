import io
import json
import logging
import subprocess
import sys
from pathlib import Path

import pytest

from mesh_lifecycle import LogLevelError, configure_logging


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


LOGS_TO_A_FULL_DISK = """
import logging, sys
from mesh_lifecycle import configure_logging
configure_logging(stream=sys.stdout)
for number in range(100):
    logging.getLogger("x").info("hello", extra={"text": "y" * 1000})
logging.getLogger("x").info("a name %s", "of \\udcff bytes")
"""


def test_a_full_disk_costs_records_and_nothing_else() -> None:
    with Path("/dev/full").open("w") as full:
        process = subprocess.run(
            [sys.executable, "-c", LOGS_TO_A_FULL_DISK],
            stdout=full,
            stderr=subprocess.PIPE,
            text=True,
            check=False,
        )

    assert (process.returncode, process.stderr) == (0, "")


def test_a_stream_that_was_closed_is_written_to_no_more(tmp_path: Path) -> None:
    file = tmp_path / "log"
    with file.open("w") as stream:
        configure_logging(stream=stream)
    with (tmp_path / "another").open("w") as another:
        logging.getLogger("x").error("too late")
        another.write("mine")

    assert (tmp_path / "another").read_text() == "mine"
    assert not file.read_text()


def test_a_record_whose_arguments_are_wrong_is_reported_as_python_does(
    capsys: pytest.CaptureFixture[str],
) -> None:
    configure_logging(stream=io.StringIO())

    logging.getLogger("x").error("number %d", "text")

    assert "a real number is required" in capsys.readouterr().err


def test_what_a_peer_sent_does_not_look_like_a_line_of_its_own() -> None:
    stream = io.StringIO()
    configure_logging(stream=stream)
    logging.getLogger("x").error("%s", "one\n2026\tinfo\tforged\x1b[2J")
    assert stream.getvalue().count("\n") == 1
    assert stream.getvalue().rstrip("\n").split("\t")[3:] == ["one\\n2026\\tinfo\\tforged\\x1b[2J"]


def test_facts_never_replace_what_every_line_has() -> None:
    stream = io.StringIO()
    configure_logging(as_json=True, stream=stream)
    facts = {"level": 9, "time": "never", "scope": "another", "rate": float("nan"), "who": {1, 2}}
    logging.getLogger("x").warning("as it is", extra=facts)
    entry = json.loads(stream.getvalue(), parse_constant=pytest.fail)
    assert (entry["level"], entry["scope"], entry["msg"]) == ("warning", "x", "as it is")
    assert (entry["level_"], entry["scope_"], entry["rate"]) == ("9", "another", "nan")
