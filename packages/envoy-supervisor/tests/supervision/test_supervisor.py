"""Fake Envoys under one supervisor: what is wanted while something else is under way."""

from __future__ import annotations

import asyncio
import json
import os
import signal
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pytest

from envoy_supervisor import (
    Address,
    AdminError,
    CrashPolicy,
    Envoy,
    EnvoyConfig,
    EnvoyExited,
    EnvoyState,
    RestartRefused,
    running,
)
from envoy_supervisor.decisions._state import Phase, Stage
from envoy_supervisor.handover._retention_decisions import SETTLE_S
from envoy_supervisor.processes._version import Version, read_version
from envoy_supervisor.supervision._supervisor import Supervisor
from envoy_supervisor.testing import FakeEnvoy, fake_envoy
from mesh_lifecycle import Backoff, SystemClock
from mesh_testkit import until
from supervised import Fake, StandingClock, serving

QUICK = CrashPolicy(budget=9, backoff=Backoff(initial_s=0.001, maximum_s=0.002))
GRACEFUL = "POST /drain_listeners?inboundonly&graceful&skip_exit"
REFUSING = "POST /drain_listeners"


@asynccontextmanager
async def supervising(config: EnvoyConfig) -> AsyncIterator[Supervisor]:
    supervisor = Supervisor(config, read_version(config), clock=SystemClock())
    try:
        supervisor.start()
        yield supervisor
    finally:
        await supervisor.end()


def version(config: EnvoyConfig, level: str) -> Version:
    return read_version(replace(config, log_level=level))


async def crashed(envoy: Envoy) -> None:
    await envoy.wait_ready()
    os.kill(envoy.pid, signal.SIGKILL)
    await envoy.wait_down()


def stands(thread: Path) -> bool:
    _, _, facts = (thread / "stat").read_text().rpartition(")")
    return facts.split()[0] == "T"


async def test_going_back_to_what_serves_is_done_at_once(fake: Fake) -> None:
    config, files = fake()
    async with supervising(config) as supervisor:
        await supervisor.status.ready.wait()
        second, third = version(config, "info"), version(config, "debug")
        await supervisor.replace(second)
        # It waits for the first to finish its requests; the caller does not wait that long.
        impatient = asyncio.create_task(supervisor.replace(third), name="restart")
        await until(lambda: supervisor.wanted.name == third.name, what="the third to be wanted")
        impatient.cancel()
        with pytest.raises(asyncio.CancelledError):
            await impatient
        assert supervisor.state.first(Stage.RETIRING)
        await supervisor.replace(second)
        assert supervisor.wanted.name == second.name
    assert len(files.starts()) == 2


async def test_a_version_that_no_caller_waits_for_any_more_is_what_runs_from_then_on(
    fake: Fake,
) -> None:
    config, _ = fake(termination_drain=timedelta(0))
    async with serving(config) as envoy:
        restart = asyncio.create_task(envoy.restart(replace(config, log_level="info")))
        second = config.directory / "envoy-rev1.json"
        await until(second.exists, what="the second to be started")
        restart.cancel()
        with pytest.raises(asyncio.CancelledError):
            await restart
        await until(lambda: envoy.status.restarts, what="the restart", seen=lambda: envoy.status)
        assert await envoy.restart() is False


async def test_an_envoy_that_never_gets_ready_makes_way_for_another_version(
    fake: Fake, socket_dir: Path
) -> None:
    config, files = fake(FakeEnvoy(never_ready=True))
    async with running(config) as envoy:
        first = envoy.pid
        await until(files.starts, what="the first to have begun")
        fake_envoy(socket_dir / "fake")
        assert await envoy.restart(replace(config, log_level="info"))
        assert envoy.pid != first
        assert envoy.status.epoch == envoy.status.crashes == 0
        with pytest.raises(ProcessLookupError):
            os.kill(first, 0)


async def test_what_waits_when_it_is_stopped_is_refused(fake: Fake, socket_dir: Path) -> None:
    config, _ = fake()
    async with supervising(config) as supervisor:
        await supervisor.status.ready.wait()
        fake_envoy(socket_dir / "fake", FakeEnvoy(never_ready=True))
        waiting = asyncio.create_task(supervisor.replace(version(config, "info")), name="restart")
        await until(lambda: supervisor.process(Stage.STARTING), what="the second to be started")
    with pytest.raises(RestartRefused, match=r"envoy has ended: envoy was (stopped|ended)"):
        await waiting
    with pytest.raises(RestartRefused, match="being stopped"):
        await supervisor.replace(version(config, "debug"))
    assert supervisor.state.phase is Phase.ENDED


async def test_an_envoy_that_fails_early_does_not_cost_the_old_one_its_place(
    fake: Fake, socket_dir: Path
) -> None:
    patient = Backoff(initial_s=3600, maximum_s=3600)
    config, files = fake(crashes=CrashPolicy(budget=0, backoff=patient))
    async with supervising(config) as supervisor:
        await supervisor.status.ready.wait()
        first = supervisor.wanted
        fake_envoy(socket_dir / "fake", FakeEnvoy(exits=127, no_admin=True))
        with pytest.raises(RestartRefused, match="exited with status 127"):
            await supervisor.replace(version(config, "info"))
        await until(
            lambda: not supervisor.state.admin_may_be_closed,
            what="the first to have answered",
            seen=lambda: supervisor.state,
        )
        assert supervisor.state.rolled_out == first.name
        assert [process.number for process in supervisor.state.processes] == [0]
    assert len(files.starts()) == 2


async def test_another_envoy_at_the_admin_address_is_not_taken_for_ours(
    fake: Fake, caplog: pytest.LogCaptureFixture
) -> None:
    other = {"config_path": "/etc/other.yaml", "restart_epoch": 0}
    body = json.dumps({"state": "LIVE", "command_line_options": other}).encode()
    asked: list[bytes] = []

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        asked.append((await reader.readuntil(b"\r\n\r\n")).split()[1])
        writer.write(b"HTTP/1.1 200 OK\r\ncontent-length: %d\r\n\r\n%s" % (len(body), body))
        await writer.drain()
        writer.close()

    late = FakeEnvoy(no_admin=True, exits=1, exits_after_s=2, prints="Address already in use\n")
    async with await asyncio.start_server(answer, "127.0.0.1", 0) as server:
        port = server.sockets[0].getsockname()[1]
        config, _ = fake(late, admin=Address(host="127.0.0.1", port=port))
        async with running(config) as envoy:
            with pytest.raises(EnvoyExited, match="could not listen, the port is in use"):
                await envoy.wait_ready()
            with pytest.raises(AdminError, match="has ended and cannot be drained"):
                await envoy.drain()
    assert set(asked) == {b"/server_info"}
    assert "envoy is ready" not in caplog.messages


async def test_what_cannot_be_removed_stops_nothing(
    fake: Fake, caplog: pytest.LogCaptureFixture
) -> None:
    config, _ = fake(crashes=QUICK)
    caplog.set_level("DEBUG", "envoy_supervisor")
    async with serving(config) as envoy:
        bootstrap = config.directory / "envoy-rev0.json"
        bootstrap.unlink()
        bootstrap.mkdir()
        await crashed(envoy)
        await envoy.wait_ready()
        (base_id,) = config.directory.glob("base-id-*")
        base_id.unlink()
        base_id.mkdir()
    assert (await envoy.wait_exit()).code == 0
    left = [r.__dict__["path"] for r in caplog.records if r.getMessage() == "a file is left"]
    assert left == [str(bootstrap), str(base_id)]


async def test_bootstraps_of_a_killed_supervisor_are_removed_and_the_users_is_not(
    fake: Fake, socket_dir: Path
) -> None:
    directory = socket_dir / "envoy"
    own = directory / "envoy-rev12.json"
    config, _ = fake(bootstrap=own)
    directory.mkdir()
    own.write_text(json.dumps({"admin": {"address": {"pipe": {"path": f"{socket_dir}/admin"}}}}))
    for name in ("envoy-rev7.json", ".envoy-rev8.json.4711", "mine.json"):
        (directory / name).write_text("{}")
    async with serving(config):
        left = {path.name for path in directory.glob("*.json*")}
        assert left == {"envoy-rev12.json", "mine.json"}
    assert own.exists()


class Waits(StandingClock):
    """Remembers how long was waited before Envoy was asked for its sockets."""

    def __init__(self) -> None:
        super().__init__()
        self.before_asking: list[float] = []

    async def sleep(self, seconds: float) -> None:
        if seconds in (0, SETTLE_S):
            self.before_asking.append(seconds)
        await super().sleep(seconds)


async def test_only_changes_of_listeners_in_quick_succession_are_waited_out(fake: Fake) -> None:
    clock = Waits()
    config, _ = fake(crashes=QUICK, listener_changes_reported=True, termination_drain=timedelta(0))
    async with serving(config, clock=clock) as envoy:
        await until(lambda: clock.before_asking, what="the first question")
        clock.before_asking.clear()
        for at, seconds in ((10.0, 0.0), (10.2, SETTLE_S), (10.4, SETTLE_S), (10.7, 0.0)):
            clock.at = at
            envoy.listeners_changing()
            envoy.listeners_changed()
            await until(lambda: clock.before_asking, what=f"the question at {at}")
            assert clock.before_asking == [seconds]
            clock.before_asking.clear()


async def test_an_envoy_that_came_after_the_drain_is_drained_as_well(fake: Fake) -> None:
    config, files = fake(crashes=QUICK)
    async with serving(config) as envoy:
        await envoy.drain()
        await crashed(envoy)
        await envoy.wait_ready()
        assert envoy.state is EnvoyState.DRAINING
    assert files.calls() == [GRACEFUL, GRACEFUL, REFUSING]


async def test_an_admin_interface_that_hangs_does_not_prolong_the_stop(
    fake: Fake, caplog: pytest.LogCaptureFixture
) -> None:
    config, _ = fake(termination_drain=timedelta(seconds=0.1), stop_grace=timedelta(seconds=0.1))
    async with serving(config) as envoy:
        os.kill(envoy.pid, signal.SIGSTOP)
        threads = [*Path(f"/proc/{envoy.pid}/task").iterdir()]
        await until(lambda: all(map(stands, threads)), what="envoy to stand still")
    assert (await envoy.wait_exit()).signal == signal.SIGKILL
    (said,) = [r for r in caplog.records if r.getMessage() == "envoy was not told to drain"]
    assert said.__dict__["error"] == "envoy does not answer in the time that is left"
