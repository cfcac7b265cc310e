"""The command of a renewal: how it is started, ended and reaped."""

import asyncio
import os
import signal
import subprocess
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from certclient import Certificate
from certclient._errors import HookFailed
from certclient.command._hooks import HookConfig, run_hooks
from mesh_testkit import hanging_mount

Issue = Callable[[], Awaitable[Certificate]]

# Objects of grpc.aio that are collected between fork and exec hang the child. What decides is
# whether any Python runs there, and this child says so with its exit code.
_PYTHON_IN_THE_CHILD = """
import os, uvloop
from certclient.command._process import run_to_end

os.register_at_fork(after_in_child=lambda: os._exit(70))
code = uvloop.run(run_to_end(["true"], environment={**os.environ}, timeout_s=60))
raise SystemExit(code)
"""


def test_no_python_runs_in_the_child() -> None:
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    done = subprocess.run(
        [sys.executable, "-c", _PYTHON_IN_THE_CHILD], env=environment, check=False
    )
    assert done.returncode == 0


@pytest.fixture
def fifo(tmp_path: Path) -> Path:
    os.mkfifo(tmp_path / "fifo")
    return tmp_path / "fifo"


def session(fifo: Path, *, stubborn: bool = False) -> tuple[str, ...]:
    """A command that starts another; both hold the FIFO open for as long as they live."""
    ignore = "trap '' TERM;" if stubborn else ""
    return ("sh", "-c", f"exec 9>'{fifo}'; {ignore} echo up >&9; sleep 600 & sleep 600; wait")


async def test_a_command_that_takes_too_long_is_ended_with_all_it_started(
    issue: Issue, fifo: Path
) -> None:
    config = HookConfig(command=session(fifo), timeout_s=0.5)
    reader = os.open(fifo, os.O_RDONLY | os.O_NONBLOCK)
    with os.fdopen(reader) as output:
        with pytest.raises(HookFailed, match=r"still running after 0\.5 s and was ended"):
            await run_hooks(config, await issue(), directory=None)
        os.set_blocking(reader, True)
        await asyncio.to_thread(output.read)  # ends when the last process of the session has


@pytest.mark.parametrize("cancellations", [1, 2])
async def test_a_cancelled_command_leaves_nothing(
    issue: Issue, fifo: Path, cancellations: int
) -> None:
    # One that obeys SIGTERM is given the time; a second cancellation does not give it any.
    config = HookConfig(command=session(fifo, stubborn=cancellations == 2))
    certificate = await issue()
    hook = asyncio.create_task(run_hooks(config, certificate, directory=None))
    with await asyncio.to_thread(fifo.open) as output:
        assert await asyncio.to_thread(output.readline) == "up\n"
        for _ in range(cancellations):
            hook.cancel()
            await asyncio.sleep(0)
        with pytest.raises(asyncio.CancelledError):
            await hook
        assert await asyncio.to_thread(output.read) == ""


@pytest.mark.parametrize(
    ("script", "how"),
    [("exit 3", "sh exited with 3"), ("kill -KILL $$", f"killed by signal {signal.SIGKILL:d}")],
)
async def test_a_command_that_fails_says_how(issue: Issue, script: str, how: str) -> None:
    with pytest.raises(HookFailed, match=how):
        await run_hooks(HookConfig(command=("sh", "-c", script)), await issue(), directory=None)


@pytest.mark.slow
async def test_a_pid_file_that_cannot_be_read_is_reported_and_holds_up_nothing(
    issue: Issue, fifo: Path, tmp_path: Path
) -> None:
    (tmp_path / "mount").mkdir()
    certificate = await issue()
    with hanging_mount(tmp_path / "mount") as mount:
        for path, reason in ((fifo, "it is a FIFO"), (mount / "pid", "did not answer within 5 s")):
            config = HookConfig(signal=signal.SIGHUP, pid_file=path)
            async with asyncio.timeout(60):
                hook = asyncio.create_task(run_hooks(config, certificate, directory=None))
                await asyncio.sleep(0)  # the loop goes on while the file is read
                assert not hook.done()
                with pytest.raises(HookFailed, match=reason):
                    await hook
