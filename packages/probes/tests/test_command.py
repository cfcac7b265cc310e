"""Commands as probes: real processes, and those that do not want to end."""

import asyncio
import os
import signal
import stat
import threading
from functools import partial
from pathlib import Path

import pytest

from mesh_probes import Exec, Outcome, Probe, check
from mesh_testkit import hanging_mount, until


async def run(*command: str, timeout_s: float = 20) -> Outcome:
    return await check(Probe(action=Exec(command=command), timeout_s=timeout_s), host="127.0.0.1")


def has_ended(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().split()[2] == "Z"
    except (FileNotFoundError, ProcessLookupError):
        return True


async def test_exit_status_zero_is_healthy() -> None:
    assert await run("true") == Outcome(healthy=True, status=200)


async def test_output_of_both_kinds_is_the_body() -> None:
    outcome = await run("sh", "-c", "echo out; echo err >&2")
    assert outcome == Outcome(healthy=True, status=200, body=b"out\nerr\n")


async def test_another_exit_status_is_the_reason_with_the_last_words() -> None:
    outcome = await run("sh", "-c", "echo starting; echo 'no database'; exit 3")
    assert outcome == Outcome(
        healthy=False, status=500, reason="command sh: exit status 3: 'no database'"
    )


async def test_a_signal_is_the_reason() -> None:
    assert (await run("sh", "-c", "kill -9 $$")).reason == "command sh: ended by signal 9"


@pytest.mark.parametrize("kind", ["missing", "fifo", "directory", "not executable", "no format"])
async def test_what_cannot_be_started_is_unhealthy(tmp_path: Path, kind: str) -> None:
    file = tmp_path / "command"
    match kind:
        case "fifo":
            os.mkfifo(file, 0o777)
        case "directory":
            file.mkdir()
        case "not executable":
            file.write_text("#!/bin/sh\n")
        case "no format":
            file.write_bytes(b"\x7fELF")
            file.chmod(0o755)
        case _:
            pass
    outcome = await run(str(file))
    assert outcome.status == 500
    assert outcome.reason.startswith(f"command {file}: it can't be started: ")


async def test_a_script_that_reads_a_fifo_ends_with_its_process_group(tmp_path: Path) -> None:
    fifo, pids = tmp_path / "fifo", tmp_path / "pids"
    os.mkfifo(fifo)
    assert stat.S_ISFIFO(fifo.stat().st_mode)
    script = f"trap '' TERM INT; sleep 3600 & echo $! $$ > {pids}; cat {fifo}"
    outcome = await run("sh", "-c", script, timeout_s=1)
    assert outcome.reason == "command sh: no answer within 1 s"
    for pid in map(int, pids.read_text().split()):
        await until(partial(has_ended, pid), what=f"the end of {pid}")


async def test_a_process_that_the_command_leaves_is_killed_and_not_waited_for() -> None:
    outcome = await run("sh", "-c", "sleep 3600 & echo $!")
    assert outcome.healthy
    pid = int(outcome.body)
    await until(partial(has_ended, pid), what="the end of what was left")


async def test_output_without_an_end_is_read_and_bounded() -> None:
    outcome = await run("sh", "-c", "yes | head -c 5000000; exit 0")
    assert (outcome.healthy, len(outcome.body)) == (True, 10240)
    assert (await run("yes", timeout_s=0.3)).reason == "command yes: no answer within 0.3 s"


async def test_there_is_no_input() -> None:
    assert (await run("cat")).healthy


async def test_a_check_that_is_cancelled_kills_the_command(tmp_path: Path) -> None:
    file = tmp_path / "pid"
    checking = asyncio.create_task(
        run("sh", "-c", f"echo $$ > {file}.new; mv {file}.new {file}; sleep 3600", timeout_s=3600),
        name="checking",
    )
    await until(file.exists, what="the start of the command")
    checking.cancel()
    with pytest.raises(asyncio.CancelledError):
        await checking
    pid = int(file.read_text())
    await until(partial(has_ended, pid), what="the end of the command")


async def test_an_exit_status_that_is_lost_is_not_taken_for_success() -> None:
    before = signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    try:
        outcome = await run("false")
    finally:
        signal.signal(signal.SIGCHLD, before)
    assert outcome.reason == "command false: another part of this program collected the exit status"


async def test_a_file_system_that_hangs_costs_one_thread_and_not_the_loop(tmp_path: Path) -> None:
    with hanging_mount(tmp_path) as directory:
        command = str(directory / "command")
        outcome = await run(command, timeout_s=1.5)
        assert outcome.reason == f"command {command}: no answer within 1.5 s"
        for _ in range(3):
            assert (await run(command)).reason == f"command {command}: its file system hangs"
        assert (await run("true")).healthy
    await until(lambda: not hanging_threads(), what="the end of the thread that hung")
    assert "can't be started" in (await run(command)).reason


def hanging_threads() -> list[str]:
    return [each.name for each in threading.enumerate() if each.name.startswith("opening ")]
