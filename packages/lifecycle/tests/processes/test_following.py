"""Following processes that others started, by id and by name."""

import asyncio
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

from mesh_lifecycle.processes import ProcessHandle, named_processes, wait_named_end
from mesh_testkit import PATIENCE_S, until

# Children of the test are not found by name, as an agent does not end with its own: these are
# children of a shell, which prints their id.
_SHELL = '"$0" 1000 & echo $!; wait'


@contextmanager
def sleeping(program: Path) -> Iterator[int]:
    """A process of that program; yields its id."""
    shell = subprocess.Popen(
        ["/bin/sh", "-c", _SHELL, str(program)], stdout=subprocess.PIPE, text=True
    )
    assert shell.stdout is not None
    pid = int(shell.stdout.readline())
    try:
        # The shell tells the id of its copy, which is the program only from its exec on.
        give_up_at = time.monotonic() + PATIENCE_S
        while Path(f"/proc/{pid}/exe").readlink() != program:
            assert time.monotonic() < give_up_at, f"process {pid} did not become {program}"
            time.sleep(0.005)
        yield pid
    finally:
        shell.stdout.close()
        for each in (pid, shell.pid):
            with suppress(ProcessLookupError):
                os.kill(each, signal.SIGKILL)
        shell.wait()


def sleeper() -> "subprocess.Popen[bytes]":
    return subprocess.Popen(["/bin/sleep", "1000"])


def careless_parent(program: Path) -> "subprocess.Popen[str]":
    """A process whose child, of that program, has ended and is not reaped."""
    script = (
        "import subprocess, time\n"
        f"subprocess.Popen([{str(program)!r}, '0'])\n"
        "print('started', flush=True)\n"
        "time.sleep(1000)\n"
    )
    return subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE, text=True)


@pytest.fixture
def program(tmp_path: Path) -> Path:
    """A program with a name that nothing else on the machine has."""
    path = tmp_path / f"job-{os.getpid()}-with-a-long-name"
    shutil.copy("/bin/sleep", path)
    return path


async def test_the_end_of_a_process_is_reported() -> None:
    child = sleeper()
    handle = ProcessHandle(child.pid)
    try:
        waiting = asyncio.create_task(handle.wait_end())
        await asyncio.sleep(0)
        assert not handle.ended
        child.kill()
        async with asyncio.timeout(PATIENCE_S):
            await waiting
        assert handle.ended
    finally:
        child.wait()
        handle.close()


def test_an_id_that_no_process_has_is_reported() -> None:
    child = subprocess.Popen(["/bin/true"])
    child.wait()
    with pytest.raises(ProcessLookupError):
        ProcessHandle(child.pid)


async def test_a_process_that_was_given_the_id_later_is_not_taken_for_the_one_followed() -> None:
    child = sleeper()
    handle = ProcessHandle(child.pid)
    child.kill()
    child.wait()
    # Whatever has the id from now on: the handle is of the process that had it.
    assert handle.ended
    async with asyncio.timeout(PATIENCE_S):
        await handle.wait_end()
    handle.close()


def test_processes_are_found_by_the_name_of_their_program(program: Path) -> None:
    assert named_processes(program.name) == ()
    with sleeping(program) as pid:
        assert named_processes(program.name) == (pid,)
        assert named_processes(program.name[:15]) == (pid,), "the kernel's own name of it"
        assert named_processes(program.name[:14]) == ()


def test_the_agent_s_own_children_are_not_found(program: Path) -> None:
    child = subprocess.Popen([program, "1000"])
    try:
        assert named_processes(program.name) == ()
    finally:
        child.kill()
        child.wait()


async def test_a_name_that_is_not_there_yet_is_awaited_and_the_last_one_counts(
    program: Path,
) -> None:
    found: list[Sequence[int]] = []
    waiting = asyncio.create_task(wait_named_end(program.name, found=found.append))
    await asyncio.sleep(0.3)
    assert not waiting.done()
    with sleeping(program) as first:
        await until(lambda: bool(found), what="the first one to be found")
        with sleeping(program) as second:
            os.kill(first, signal.SIGKILL)
            await until(lambda: found[-1] == (second,), what="the second one", seen=lambda: found)
            assert not waiting.done()
            os.kill(second, signal.SIGKILL)
            async with asyncio.timeout(PATIENCE_S):
                await waiting
    assert found == [(first,), (second,)]


async def test_a_process_that_its_parent_has_not_reaped_has_ended(program: Path) -> None:
    careless = careless_parent(program)
    assert careless.stdout is not None
    try:
        assert careless.stdout.readline() == "started\n"
        async with asyncio.timeout(PATIENCE_S):
            with sleeping(program) as pid:
                waiting = asyncio.create_task(wait_named_end(program.name))
                await asyncio.sleep(0.2)
                os.kill(pid, signal.SIGKILL)
                await waiting
    finally:
        careless.stdout.close()
        careless.kill()
        careless.wait()
