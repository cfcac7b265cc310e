"""Envoys that behave badly, one fake at a time."""

from __future__ import annotations

import asyncio
import logging
import os
import select
import signal
import subprocess
import sys
from contextlib import AsyncExitStack
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pytest

from envoy_supervisor import (
    AdminError,
    EnvoyExited,
    EnvoyNotFound,
    EnvoyState,
    EnvoySupervisorError,
    ExitCause,
    running,
)
from envoy_supervisor.processes._arguments import LOG_FORMAT
from envoy_supervisor.testing import FakeEnvoy
from mesh_lifecycle.testing import ManualClock
from mesh_testkit import PATIENCE_S, until
from supervised import Fake, serving, stop_aside, until_state


def names(directory: Path) -> set[str]:
    return {path.name for path in directory.iterdir()}


@pytest.mark.parametrize(
    ("behaviour", "cause", "words"),
    [
        (FakeEnvoy(exits=3, prints="no luck\n"), ExitCause.FAILED, "status 3: no luck"),
        (FakeEnvoy(exits=0), ExitCause.STOPPED, "exited by itself"),
        (FakeEnvoy(crashes=signal.SIGKILL), ExitCause.KILLED, "SIGKILL"),
        (FakeEnvoy(crashes=signal.SIGSEGV), ExitCause.CRASHED, "SIGSEGV"),
        (
            FakeEnvoy(exits=127, prints="envoy: error while loading shared libraries: libx.so\n"),
            ExitCause.MISSING_LIBRARY,
            "libx.so",
        ),
        (
            FakeEnvoy(exits=1, print_bytes=10_000_000),
            ExitCause.FAILED,
            "status 1: " + "x" * 83,
        ),
    ],
    ids=lambda value: str(value)[:40],
)
async def test_an_end_before_ready_is_explained(
    fake: Fake, behaviour: FakeEnvoy, cause: ExitCause, words: str
) -> None:
    # Were it there to be asked, it might be ready for a moment.
    config, _ = fake(replace(behaviour, no_admin=True))
    async with running(config) as envoy:
        with pytest.raises(EnvoyExited, match=words) as caught:
            await envoy.wait_ready()
        assert caught.value.exit.cause is cause
        assert envoy.state is EnvoyState.EXITED
    assert names(config.directory) == set()


async def test_the_arguments_are_envoys(fake: Fake) -> None:
    config, files = fake(
        FakeEnvoy(),
        component_log_level="upstream:debug",
        concurrency=2,
        log_level="info",
        drain_time=timedelta(seconds=7.4),
        extra_args=("--skip-deprecated-logs",),
    )
    async with serving(config):
        pass
    assert files.starts() == [
        [
            *("-c", str(config.directory / "envoy-rev0.json")),
            *("--drain-time-s", "7"),
            *("--drain-strategy", "immediate"),
            *("--parent-shutdown-time-s", "60"),
            *("--socket-path", str(config.directory / f"base-id-{os.getpid()}-0")),
            *("--socket-mode", "600"),
            "--use-dynamic-base-id",
            *("--base-id-path", str(config.directory / f"base-id-{os.getpid()}-0")),
            *("--local-address-ip-version", "v4"),
            *("--file-flush-interval-msec", "1000"),
            "--allow-unknown-static-fields",
            *("-l", "info"),
            *("--component-log-level", "upstream:debug"),
            *("--log-format", LOG_FORMAT),
            *("--concurrency", "2"),
            "--skip-deprecated-logs",
        ]
    ]


async def test_stopping_drains_waits_for_connections_and_closes_the_doors(fake: Fake) -> None:
    config, files = fake(FakeEnvoy(connections=(3, 1, 0)))
    async with serving(config) as envoy:
        pass
    assert files.calls() == [
        "POST /drain_listeners?inboundonly&graceful&skip_exit",
        "POST /drain_listeners",
    ]
    assert (await envoy.wait_exit()).reason == "envoy was stopped"


async def test_a_drain_before_the_stop_is_not_repeated(fake: Fake) -> None:
    config, files = fake()
    async with serving(config) as envoy:
        await envoy.drain()
        assert envoy.state is EnvoyState.DRAINING
    assert files.calls() == [
        "POST /drain_listeners?inboundonly&graceful&skip_exit",
        "POST /drain_listeners",
    ]


async def test_zero_termination_drain_stops_at_once(fake: Fake) -> None:
    config, files = fake(FakeEnvoy(connections=(5,)), termination_drain=timedelta(0))
    async with serving(config):
        pass
    assert files.calls() == []


async def test_an_envoy_that_ignores_sigterm_is_killed(
    fake: Fake, caplog: pytest.LogCaptureFixture
) -> None:
    config, _ = fake(FakeEnvoy(ignores_sigterm=True), stop_grace=timedelta(seconds=0.1))
    async with serving(config) as envoy:
        pass
    ended = await envoy.wait_exit()
    assert ended.signal == signal.SIGKILL
    assert ended.cause is ExitCause.STOPPED
    assert "envoy does not exit, killing it" in caplog.messages


async def test_an_envoy_that_never_gets_ready_is_stopped_without_waiting(fake: Fake) -> None:
    config, files = fake(FakeEnvoy(never_ready=True))
    async with running(config) as envoy:
        pass
    assert files.calls() == []
    assert envoy.state is EnvoyState.EXITED


async def test_readiness_is_seen_when_it_comes(fake: Fake) -> None:
    config, _ = fake(FakeEnvoy(ready_after=3))
    async with serving(config) as envoy:
        assert envoy.state is EnvoyState.READY


async def test_an_envoy_that_dies_while_draining_ends_the_wait(fake: Fake) -> None:
    config, _ = fake(FakeEnvoy(connections=(1,)), termination_drain=timedelta(hours=1))
    async with AsyncExitStack() as stack:
        envoy = await stack.enter_async_context(serving(config))
        async with stop_aside(stack):
            await until_state(envoy, EnvoyState.DRAINING)
            os.kill(envoy.pid, signal.SIGKILL)
    assert (await envoy.wait_exit()).signal == signal.SIGKILL


async def test_a_second_request_to_stop_skips_the_waiting(fake: Fake) -> None:
    config, _ = fake(FakeEnvoy(connections=(1,)), termination_drain=timedelta(hours=1))
    started = asyncio.get_running_loop().create_future()

    async def run() -> None:
        async with serving(config) as envoy:
            started.set_result(envoy)
            await asyncio.Event().wait()

    service = asyncio.create_task(run(), name="service")
    envoy = await started
    service.cancel()
    await until_state(envoy, EnvoyState.DRAINING)
    service.cancel()
    with pytest.raises(asyncio.CancelledError):
        await service
    assert (await envoy.wait_exit()).code == 0


async def test_a_missing_executable_is_named(fake: Fake, tmp_path: Path) -> None:
    config, _ = fake(binary=tmp_path / "envoy")
    with pytest.raises(EnvoyNotFound, match=f"cannot execute {tmp_path}/envoy: No such file"):
        async with running(config):
            pass
    assert names(config.directory) == set()


@pytest.mark.parametrize(
    ("content", "mode", "complaint"),
    [(b"", 0o644, "Permission denied"), (b"\x00\x01\x02", 0o755, "no program for this machine")],
)
async def test_a_file_that_is_no_program_is_named(
    fake: Fake, tmp_path: Path, content: bytes, mode: int, complaint: str
) -> None:
    binary = tmp_path / "envoy"
    binary.write_bytes(content)
    binary.chmod(mode)
    config, _ = fake(binary=binary)
    with pytest.raises(EnvoyNotFound, match=complaint):
        async with running(config):
            pass


async def test_an_envoy_without_admin_is_stopped_all_the_same(fake: Fake) -> None:
    config, _ = fake(FakeEnvoy(no_admin=True))
    async with running(config) as envoy:
        pass
    assert (await envoy.wait_exit()).cause is ExitCause.STOPPED


async def test_draining_an_envoy_that_cannot_be_asked_is_an_error_and_no_more(fake: Fake) -> None:
    config, _ = fake(FakeEnvoy(no_admin=True))
    async with running(config) as envoy:
        with pytest.raises(AdminError, match=r"admin socket unix:.* does not answer"):
            await envoy.drain()
        assert envoy.state is EnvoyState.STARTING


async def test_output_reaches_the_log(fake: Fake, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG, "envoy_supervisor")
    config, _ = fake(FakeEnvoy(prints="[error][config] listener 'x' is bad\n"))
    async with serving(config) as envoy:
        pass
    records = [r for r in caplog.records if r.name == "envoy config"]
    assert [(r.levelno, r.getMessage()) for r in records] == [
        (logging.ERROR, "listener 'x' is bad")
    ]
    assert records[0].__dict__["pid"] == envoy.pid


PARENT = """
import asyncio, sys
from pathlib import Path
from envoy_supervisor import BootstrapConfig, EnvoyConfig, UnixAddress, running

async def main(binary: Path, directory: Path) -> None:
    bootstrap = BootstrapConfig(
        node_id="n", node_cluster="c", xds_socket=directory / "XDS", sds_socket=directory / "SDS",
        admin=UnixAddress(path=directory / "admin"),
    )
    config = EnvoyConfig(binary=binary, bootstrap=bootstrap, directory=directory)
    async with running(config) as envoy:
        await envoy.wait_ready()
        print(envoy.pid, flush=True)
        await asyncio.Event().wait()

asyncio.run(main(Path(sys.argv[1]), Path(sys.argv[2])))
"""


def test_envoy_does_not_outlive_a_killed_parent(fake: Fake, socket_dir: Path) -> None:
    _, files = fake(FakeEnvoy(ignores_sigterm=True))
    command = [sys.executable, "-c", PARENT, str(files.binary), str(socket_dir)]
    with subprocess.Popen(command, stdout=subprocess.PIPE) as parent:
        assert parent.stdout is not None
        envoy = os.pidfd_open(int(parent.stdout.readline()))
        try:
            parent.kill()
            ended, _, _ = select.select([envoy], [], [], PATIENCE_S)
            assert ended
        finally:
            os.close(envoy)
    # No supervisor was left to remove it.
    (socket_dir / "admin").unlink()


@pytest.mark.slow
@pytest.mark.usefixtures("loop_in_use")
async def test_a_hundred_starts_and_stops_leave_nothing(fake: Fake) -> None:
    config, files = fake(FakeEnvoy(exits=1, no_admin=True))
    descriptors = names(Path("/proc/self/fd"))
    for _ in range(100):
        async with running(config) as envoy:
            assert (await envoy.wait_exit()).code == 1
    assert len(files.starts()) == 100
    assert names(Path("/proc/self/fd")) <= descriptors
    assert names(config.directory) == set()


EXHAUSTED = """
import asyncio, resource, sys
from pathlib import Path
from envoy_supervisor import EnvoyConfig, EnvoySupervisorError, UnixAddress, running

async def main(binary: Path, directory: Path) -> None:
    bootstrap = directory / "bootstrap.json"
    bootstrap.write_text("{}")
    config = EnvoyConfig(
        binary=binary, bootstrap=bootstrap, directory=directory,
        admin=UnixAddress(path=directory / "admin"),
    )
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    import os
    resource.setrlimit(resource.RLIMIT_NOFILE, (len(os.listdir("/proc/self/fd")), most))
    try:
        async with running(config):
            pass
    except EnvoySupervisorError as error:
        print(error)

asyncio.run(main(Path(sys.argv[1]), Path(sys.argv[2])))
"""


def test_too_many_open_files_is_said(fake: Fake, socket_dir: Path) -> None:
    _, files = fake()
    said = subprocess.run(
        [sys.executable, "-c", EXHAUSTED, files.binary, socket_dir],
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    assert "Too many open files" in said


async def test_a_directory_that_cannot_be_written_is_named(fake: Fake) -> None:
    config, _ = fake(directory=Path("/proc/nowhere"))
    with pytest.raises(EnvoySupervisorError, match=r"cannot write /proc/nowhere/envoy-rev0\.json"):
        async with running(config):
            pass


async def test_a_pause_before_the_drain_serves_on(fake: Fake) -> None:
    clock = ManualClock()
    config, files = fake(pre_drain_pause=timedelta(seconds=7))
    stopped = asyncio.Event()

    async def run() -> None:
        async with running(config, clock=clock) as envoy:
            ready = asyncio.create_task(envoy.wait_ready(), name="ready")
            while not ready.done():
                await clock.advance(0.02)
        stopped.set()

    service = asyncio.create_task(run(), name="service")
    await until(
        lambda: any(seconds > 6 for seconds in clock.sleeping),
        what="the pause",
        seen=lambda: clock.sleeping,
    )
    await clock.advance(6.9)
    assert files.calls() == []
    while not stopped.is_set():
        await clock.advance(0.05)
    await service
    assert files.calls()[0] == "POST /drain_listeners?inboundonly&graceful&skip_exit"
