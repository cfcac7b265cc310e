"""Fake Envoys that end by themselves: how often they are started again, and what is said."""

from __future__ import annotations

import asyncio
import os
import signal
from pathlib import Path

import pytest

from envoy_supervisor import (
    CrashPolicy,
    EnvoyExited,
    EnvoyState,
    ExitCause,
    running,
)
from envoy_supervisor.testing import FakeEnvoy, fake_envoy
from mesh_lifecycle import Backoff
from mesh_testkit import until
from supervised import Fake, crashed

QUICK = Backoff(initial_s=0.001, maximum_s=0.002)
HOUR_S = 3600.0
"""A window that all crashes of a test fall into, however long the starts take."""


@pytest.mark.parametrize(
    ("behaviour", "starts", "cause", "words"),
    [
        (FakeEnvoy(exits=7), 4, ExitCause.FAILED, "exited with status 7"),
        (FakeEnvoy(exits=7, exits_after_s=0.2), 4, ExitCause.FAILED, "exited with status 7"),
        (FakeEnvoy(crashes=signal.SIGKILL), 4, ExitCause.KILLED, "killed by SIGKILL"),
        (FakeEnvoy(crashes=signal.SIGABRT), 4, ExitCause.CRASHED, "crashed with SIGABRT"),
        (FakeEnvoy(exits=1, print_bytes=10_000_000), 4, ExitCause.FAILED, "exited with status 1"),
        # What cannot heal is not tried again.
        (FakeEnvoy(exits=0), 1, ExitCause.STOPPED, "exited by itself"),
        (
            FakeEnvoy(exits=127, prints="error while loading shared libraries: libx.so\n"),
            1,
            ExitCause.MISSING_LIBRARY,
            "libx.so",
        ),
        (
            FakeEnvoy(exits=1, prints="[critical][main] error `x` initializing config 'y'\n"),
            1,
            ExitCause.BAD_CONFIGURATION,
            "refused its configuration: error `x`",
        ),
    ],
    ids=["exits", "exits later", "killed", "aborts", "10 MB", "quits", "library", "config"],
)
async def test_the_budget_is_used_and_the_last_reason_reported(
    fake: Fake, behaviour: FakeEnvoy, starts: int, cause: ExitCause, words: str
) -> None:
    config, files = fake(behaviour, crashes=CrashPolicy(budget=3, window_s=HOUR_S, backoff=QUICK))
    async with running(config) as envoy:
        ended = await envoy.wait_exit()
        assert ended.cause is cause
        assert words in ended.reason
        assert envoy.status.crashes == starts
        assert ended.reason.startswith(envoy.status.last_crash or "-")
        spent = "; the crash budget of 3 new starts in 3600 s is used up"
        assert ended.reason.endswith(spent) is (starts == 4)
        with pytest.raises(EnvoyExited, match=words):
            await envoy.wait_ready()
    assert len(files.starts()) == starts
    assert [path.name for path in config.directory.iterdir()] == []


async def test_one_crash_is_followed_by_a_healthy_start(
    fake: Fake, socket_dir: Path, caplog: pytest.LogCaptureFixture
) -> None:
    config, files = fake(FakeEnvoy(exits=7), crashes=CrashPolicy(budget=50, backoff=QUICK))
    async with running(config) as envoy:
        await until(lambda: envoy.status.crashes, what="a crash", seen=lambda: envoy.status)
        await envoy.wait_down()
        fake_envoy(socket_dir / "fake", FakeEnvoy())
        await envoy.wait_ready()
        assert 1 <= envoy.status.crashes <= 50
    assert len(files.starts()) == envoy.status.crashes + 1
    assert "envoy failed" in caplog.messages
    assert "envoy is started again" in caplog.messages


def left_of(directory: Path) -> dict[str, list[str]]:
    """Whatever a restart could leave behind."""
    children = Path("/proc/self/task").glob("*/children")
    sockets = Path("/proc/net/unix").read_text().splitlines()
    return {
        "processes": [pid for file in children for pid in file.read_text().split()],
        "descriptors": sorted(path.name for path in Path("/proc/self/fd").iterdir()),
        "files": sorted(str(path) for path in directory.rglob("*") if path.is_file()),
        "socket files": sorted(str(path) for path in directory.rglob("*") if path.is_socket()),
        "sockets": [line for line in sockets if str(directory) in line],
    }


@pytest.mark.slow
@pytest.mark.parametrize(
    "behaviour",
    [FakeEnvoy(exits=7), FakeEnvoy(crashes=signal.SIGKILL)],
    ids=["exits", "killed"],
)
@pytest.mark.usefixtures("loop_in_use")
async def test_a_hundred_restarts_leave_nothing(
    fake: Fake, socket_dir: Path, behaviour: FakeEnvoy
) -> None:
    policy = CrashPolicy(budget=99, window_s=HOUR_S, backoff=QUICK)
    config, files = fake(behaviour, crashes=policy)
    files.journal.touch()
    before = left_of(socket_dir)
    async with running(config) as envoy:
        await envoy.wait_exit()
    assert len(files.starts()) == 100
    assert left_of(socket_dir) == before


async def test_a_stop_between_two_starts_ends_it(fake: Fake) -> None:
    slow = Backoff(initial_s=3600, maximum_s=3600)
    config, files = fake(FakeEnvoy(exits=7), crashes=CrashPolicy(budget=9, backoff=slow))
    async with running(config) as envoy:
        await crashed(envoy, 2)
    assert len(files.starts()) == 2
    assert (await envoy.wait_exit()).code == 7


async def test_the_end_of_the_envoy_that_serves_is_reported_at_once(fake: Fake) -> None:
    config, _ = fake(FakeEnvoy(), crashes=CrashPolicy(budget=50, backoff=QUICK))
    async with running(config) as envoy:
        for _ in range(2):
            await envoy.wait_ready()
            down = asyncio.create_task(envoy.wait_down())
            await asyncio.sleep(0)
            assert not down.done()
            os.kill(envoy.pid, signal.SIGKILL)
            await down
            assert envoy.state is EnvoyState.STARTING
