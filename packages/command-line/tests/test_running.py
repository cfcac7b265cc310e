"""The exit status of a command, and what it says when it ends early."""

import os
import subprocess
import sys

import pytest

from mesh_command_line import CommandError, exit_status
from mesh_command_line.typer_application import application, run

ENDLESS = """
import sys
from mesh_command_line import exit_status
def run():
    while True:
        print("line")
sys.exit(exit_status(run, name="greeter"))
"""


def fail(error: BaseException) -> None:
    raise error


@pytest.mark.parametrize(
    ("error", "status", "said"),
    [
        (CommandError("Zeno is not there"), 1, "greeter: Zeno is not there\n"),
        (CommandError("no such name", exit_code=3), 3, "greeter: no such name\n"),
        (KeyboardInterrupt(), 130, ""),
        (ValueError("x"), 2, "greeter: wrong\n"),
    ],
)
def test_an_error_is_an_exit_status_and_a_sentence(
    error: BaseException, status: int, said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    found = exit_status(
        lambda: fail(error),
        name="greeter",
        wrong_call=lambda raised: "wrong" if isinstance(raised, ValueError) else None,
    )
    assert (found, capsys.readouterr().err) == (status, said)


def test_an_unexpected_error_is_raised() -> None:
    with pytest.raises(OSError, match="disk"):
        exit_status(lambda: fail(OSError("disk")), name="greeter")


@pytest.mark.parametrize(("result", "status"), [(None, 0), (4, 4), ("text", 0)])
def test_what_is_returned_counts_if_it_is_a_number(result: object, status: int) -> None:
    assert exit_status(lambda: result, name="greeter") == status


def test_a_reader_that_has_left_is_no_traceback() -> None:
    reading, writing = os.pipe()
    os.close(reading)
    try:
        done = subprocess.run(
            [sys.executable, "-c", ENDLESS], stdout=writing, stderr=subprocess.PIPE, check=False
        )
    finally:
        os.close(writing)
    assert (done.returncode, done.stderr) == (1, b"")


def test_importing_the_package_loads_nothing_heavy() -> None:
    script = "import sys, mesh_command_line; print(*sys.modules)"
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True
    )
    assert not set(done.stdout.split()) & {"argparse", "inspect", "typer"}


def test_the_flag_shows_name_and_version(capsys: pytest.CaptureFixture[str]) -> None:
    app = application("greeter", about="Greets people.", version=lambda: "1.2")
    app.command("greet")(lambda: None)
    assert run(app, ["--version"], name="greeter") == 0
    assert capsys.readouterr().out == "greeter 1.2\n"
    assert run(app, ["greet", "--nope"], name="greeter") == 2
    assert capsys.readouterr().err == (
        "greeter: No such option: --nope (see greeter greet --help)\n"
    )
    assert run(app, [], name="greeter") == 0
    assert "Usage: greeter" in capsys.readouterr().out
