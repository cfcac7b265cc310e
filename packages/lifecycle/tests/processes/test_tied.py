"""Programs that end with the process that started them."""

import asyncio
import errno
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from mesh_lifecycle.processes import NotExecuted, start_tied, tied_command
from mesh_testkit import until

SLEEP = (sys.executable, "-c", "import time; time.sleep(600)")


def alive(pid: int) -> bool:
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except (FileNotFoundError, ProcessLookupError):
        return False
    return state != "Z"


async def test_a_program_dies_with_its_killed_parent() -> None:
    parent_script = (
        "import signal, subprocess, time\n"
        "from mesh_lifecycle.processes import tied_command\n"
        f"command = tied_command({SLEEP!r}, end_signal=signal.SIGKILL)\n"
        "child = subprocess.Popen(command, start_new_session=True)\n"
        "print(child.pid, flush=True)\n"
        "time.sleep(600)\n"
    )
    parent = await asyncio.create_subprocess_exec(
        sys.executable, "-c", parent_script, stdout=asyncio.subprocess.PIPE
    )
    assert parent.stdout is not None
    child = int(await parent.stdout.readline())
    # The program that is started first becomes the other once it has asked for the signal.
    command = Path(f"/proc/{child}/cmdline")
    await until(lambda: b"time.sleep" in command.read_bytes(), what="the start")
    await until(lambda: b"_exec_program" not in command.read_bytes(), what="the program")
    parent.kill()
    await parent.communicate()
    await until(lambda: not alive(child), what="the child's end")


def test_a_program_runs_once_it_is_returned() -> None:
    with start_tied(SLEEP, end_signal=signal.SIGTERM, stdout=subprocess.PIPE) as started:
        assert b"_exec_program" not in Path(f"/proc/{started.pid}/cmdline").read_bytes()
        started.kill()


def test_a_program_that_is_not_there_is_reported_by_its_error_number() -> None:
    with pytest.raises(NotExecuted) as raised:
        start_tied(["./not-there"], end_signal=signal.SIGTERM, stdout=subprocess.PIPE)
    assert raised.value.errno == errno.ENOENT


def test_without_a_descriptor_a_program_that_is_not_there_is_reported_in_words() -> None:
    done = subprocess.run(
        tied_command(["./not-there"], end_signal=signal.SIGTERM),
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stderr) == (
        127,
        "./not-there can't be run: No such file or directory\n",
    )


def test_the_program_ignores_no_signal_that_python_does() -> None:
    started = start_tied(
        ["cat", "/proc/self/status"], end_signal=signal.SIGKILL, stdout=subprocess.PIPE
    )
    output, _ = started.communicate(timeout=60)
    status = dict(line.split(":", 1) for line in output.decode().splitlines())
    ignored = int(status["SigIgn"], 16)
    assert not any(ignored >> (each - 1) & 1 for each in (signal.SIGPIPE, signal.SIGXFSZ))
