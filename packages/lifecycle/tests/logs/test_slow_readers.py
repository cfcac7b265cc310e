"""A reader that does not read: the program goes on, and what it logged is not lost at once."""

import fcntl
import json
import logging
import os
import pty
import subprocess
import sys
import termios
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TextIO

import pytest

from mesh_lifecycle import LogScopes, LogSettings, configure_logging, start_logging
from mesh_lifecycle.logs._handler import MAX_WAITING_BYTES

PATIENCE_S = 60


@contextmanager
def pipe() -> Iterator[tuple[int, TextIO]]:
    reading, writing = os.pipe()
    with os.fdopen(writing, "w") as stream, os.fdopen(reading, "rb") as reader:
        fcntl.fcntl(writing, fcntl.F_SETPIPE_SZ, 4096)
        yield reader.fileno(), stream


def read_until(descriptor: int, what: str) -> list[str]:
    text = ""
    while what not in text:
        text += os.read(descriptor, 1 << 16).decode()
    return text.splitlines()


def test_a_pipe_that_is_not_read_holds_nothing_up_and_is_written_when_it_is_read() -> None:
    with pipe() as (reader, stream):
        configure_logging(stream=stream)
        for number in range(1000):  # far more than the pipe holds, and this thread does not read
            logging.getLogger("x").info("line %d", number)
        lines = read_until(reader, "line 999\n")

    assert [line.split("\t")[3] for line in lines] == [f"line {number}" for number in range(1000)]


def test_what_is_above_the_limit_is_lost_and_counted_exactly() -> None:
    with pipe() as (reader, stream):
        configure_logging(as_json=True, stream=stream)
        count = 3 * MAX_WAITING_BYTES // 1000
        for number in range(count):
            logging.getLogger("x").info("line", extra={"number": number, "text": "y" * 1000})
        entries: list[dict[str, Any]] = []
        text = b""
        while not entries or entries[-1]["msg"] != "log records were lost":
            *whole, text = (text + os.read(reader, 1 << 16)).split(b"\n")
            entries += [json.loads(line) for line in whole]

    assert len(entries) - 1 + entries[-1]["count"] == count
    assert entries[-1]["reason"] == "more was logged than is read"


def test_a_stopped_terminal_holds_nothing_up() -> None:
    own, theirs = pty.openpty()
    with os.fdopen(theirs, "w") as stream, os.fdopen(own, "rb") as terminal:
        configure_logging(stream=stream)
        termios.tcflow(stream.fileno(), termios.TCOOFF)  # as Ctrl-S does
        for number in range(100):
            logging.getLogger("x").info("line %d", number)
        termios.tcflow(stream.fileno(), termios.TCOON)
        read_until(terminal.fileno(), "line 99")
        logging.getLogger().handlers[0].flush()


HANGS_AT_THE_END = """
import logging, sys
from mesh_lifecycle import configure_logging
configure_logging(stream=sys.stdout)
for number in range(2000):
    logging.getLogger("x").info("line %d", number, extra={"text": "y" * 100})
"""


def test_a_process_ends_although_its_log_is_not_read() -> None:
    process = subprocess.Popen([sys.executable, "-c", HANGS_AT_THE_END], stdout=subprocess.PIPE)
    with process:
        assert process.wait(PATIENCE_S) == 0
        assert process.stdout is not None
        assert b"line 0\t" in process.stdout.read()


def test_a_process_writes_all_before_it_ends_if_its_log_is_read() -> None:
    done = subprocess.run(
        [sys.executable, "-c", HANGS_AT_THE_END], stdout=subprocess.PIPE, check=True
    )
    assert len(done.stdout.splitlines()) == 2000


def test_no_thread_is_left_once_all_is_written(tmp_path: Path) -> None:
    start_logging(LogSettings(targets=(str(tmp_path / "log"),)), LogScopes())
    logging.getLogger("x").info("line")
    logging.getLogger().handlers[0].flush()
    assert not [each for each in threading.enumerate() if each.name == "log writer"]
    assert "\tline\n" in (tmp_path / "log").read_text()


def test_lines_of_many_threads_stay_whole_and_all_arrive() -> None:
    with pipe() as (reader, stream):
        configure_logging(stream=stream)

        def log_much(who: int) -> None:
            for number in range(200):
                logging.getLogger("x").info("line", extra={"who": who, "number": number})

        threads = [threading.Thread(target=log_much, args=(who,)) for who in range(8)]
        for thread in threads:
            thread.start()
        text = b""
        while text.count(b"\n") < 1600:
            text += os.read(reader, 1 << 16)
        for thread in threads:
            thread.join()
    facts = [line.split(b"\t")[4] for line in text.splitlines()]
    assert len(set(facts)) == 1600


def test_a_reader_that_goes_away_ends_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    reading, writing = os.pipe()
    with os.fdopen(writing, "w") as stream:
        configure_logging(stream=stream)
        os.close(reading)
        for _ in range(100):
            logging.getLogger("x").info("line")
    assert capsys.readouterr() == ("", "")
