"""Log files: what cannot be opened is logged, and what is moved aside is opened anew."""

import logging
import os
from pathlib import Path

import pytest

from mesh_lifecycle import LogScopes, LogSettings, LogTargetError, Rotation, start_logging

SCOPES = LogScopes()


def written() -> None:
    for handler in logging.getLogger().handlers:
        handler.flush()


def messages(file: Path) -> list[str]:
    return [line.split("\t")[3] for line in file.read_text().splitlines()]


def test_every_line_goes_to_every_target(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "log"
    start_logging(LogSettings(targets=("stdout", str(file), str(file), "/dev/stderr")), SCOPES)
    logging.getLogger("x").info("line")
    written()
    out, err = capfd.readouterr()
    assert out == err == file.read_text()
    assert messages(file) == ["line"]


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("no/such/folder", "No such file or directory"),
        (".", "Is a directory"),
        ("fifo", "no process reads it"),
        ("nul\0", "no path of a file"),
        ("x" * 300, "File name too long"),
    ],
)
def test_a_file_that_cannot_be_opened_is_one_clear_problem(
    tmp_path: Path, name: str, reason: str
) -> None:
    os.mkfifo(tmp_path / "fifo")
    before = logging.getLogger().handlers[:]
    with pytest.raises(LogTargetError, match=reason):
        start_logging(LogSettings(targets=("stdout", str(tmp_path / name))), SCOPES)
    assert logging.getLogger().handlers == before


def test_a_file_that_was_moved_aside_is_opened_anew(tmp_path: Path) -> None:
    file, aside = tmp_path / "log", tmp_path / "log.1"
    start_logging(LogSettings(targets=(str(file),)), SCOPES)
    logging.getLogger("x").info("one")
    written()
    file.rename(aside)
    logging.getLogger("x").info("two")
    written()
    assert (messages(aside), messages(file)) == (["one"], ["two"])


def test_a_file_that_was_copied_and_cut_is_written_from_its_beginning(tmp_path: Path) -> None:
    file = tmp_path / "log"
    start_logging(LogSettings(targets=(str(file),)), SCOPES)
    logging.getLogger("x").info("one")
    written()
    os.truncate(file, 0)
    logging.getLogger("x").info("two")
    written()
    assert messages(file) == ["two"]


def test_if_it_cannot_be_opened_anew_the_old_one_is_written_and_says_why(tmp_path: Path) -> None:
    folder = tmp_path / "folder"
    folder.mkdir()
    file, aside = folder / "log", tmp_path / "aside"
    start_logging(LogSettings(targets=(str(file),)), SCOPES)
    logging.getLogger("x").info("one")
    written()
    file.rename(aside)
    folder.rmdir()
    logging.getLogger("x").info("two")
    written()
    one, two, why = aside.read_text().splitlines()
    assert "\tone" in one
    assert "\ttwo" in two
    assert "No such file or directory" in why


def test_a_large_file_is_moved_aside_and_old_ones_are_removed(tmp_path: Path) -> None:
    file = tmp_path / "agent.log"
    (tmp_path / "agent-of-another.log").write_text("mine")
    rotation = Rotation(max_bytes=1000, max_age_days=1, max_backups=3)
    start_logging(LogSettings(targets=(), rotated=file, rotation=rotation), SCOPES)
    for number in range(50):
        logging.getLogger("x").info("line", extra={"number": number, "text": "y" * 300})
        written()
    backups = sorted(tmp_path.glob("agent-2*.log"))
    assert len(backups) == 3
    assert all(each.stat().st_size < 2000 for each in (file, *backups))
    last = "".join(each.read_text() for each in (*backups, file))
    assert "number=49" in last
    os.utime(backups[0], (0, 0))
    for _ in range(4):
        logging.getLogger("x").info("line", extra={"text": "y" * 300})
        written()
    assert not backups[0].exists()
    assert (tmp_path / "agent-of-another.log").read_text() == "mine"


def test_a_full_disk_costs_records_which_are_counted(tmp_path: Path) -> None:
    link = tmp_path / "log"
    link.symlink_to("/dev/full")
    start_logging(LogSettings(targets=(str(link),)), SCOPES)
    for _ in range(10):
        logging.getLogger("x").info("line")
    written()
    logging.getLogger("x").info("line")
