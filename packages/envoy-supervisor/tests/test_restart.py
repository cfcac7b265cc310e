"""Hot restart and crash recovery of a real Envoy, under load."""

from __future__ import annotations

import asyncio
import json
import os
import signal
from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any, Protocol

import pytest

from envoy_supervisor import (
    CrashPolicy,
    Envoy,
    EnvoyConfig,
    EnvoyState,
    RestartRefused,
    running,
)


class Application(Protocol):
    arrived: asyncio.Event
    release: asyncio.Event
    port: int


class ProxyConfig(Protocol):
    def __call__(self, listen: int, application: int, **changes: Any) -> EnvoyConfig: ...


class Get(Protocol):
    def __call__(self, port: int) -> AbstractAsyncContextManager[asyncio.Task[bytes]]: ...


class FreePort(Protocol):
    def __call__(self) -> int: ...


class Load:
    """Requests without pause, each over a new connection; counts what comes back."""

    def __init__(self, port: int) -> None:
        self.port = port
        self.answered = 0
        self.failed: list[str] = []

    async def worker(self) -> None:
        while True:
            try:
                reader, writer = await asyncio.open_connection("127.0.0.1", self.port)
                try:
                    writer.write(b"GET /quick HTTP/1.1\r\nhost: a\r\n\r\n")
                    answer = await reader.readuntil(b"done")
                    assert answer.startswith(b"HTTP/1.1 200")
                    self.answered += 1
                finally:
                    writer.close()
            except (OSError, asyncio.IncompleteReadError) as error:
                self.failed.append(repr(error))

    async def more(self, count: int = 50) -> None:
        """Wait until that many more have been answered."""
        wanted = self.answered + count
        while self.answered < wanted:  # noqa: ASYNC110 - a count is no event
            await asyncio.sleep(0)


@asynccontextmanager
async def load_on(port: int) -> AsyncIterator[Load]:
    load = Load(port)
    workers = [asyncio.create_task(load.worker(), name="load") for _ in range(4)]
    try:
        yield load
    finally:
        for worker in workers:
            worker.cancel()
        await asyncio.wait(workers)


def changed(config: EnvoyConfig, note: str) -> EnvoyConfig:
    """Edit the bootstrap file; the change itself means nothing."""
    assert isinstance(config.bootstrap, Path)
    bootstrap = json.loads(config.bootstrap.read_text())
    bootstrap["node"] = {"id": note, "cluster": "c"}
    config.bootstrap.write_text(json.dumps(bootstrap))
    return config


def shared_memory(config: EnvoyConfig) -> list[Path]:
    """What the Envoys of this supervisor keep in shared memory."""
    ids = [int(path.read_text()) for path in config.directory.glob("base-id-*-[0-9]")]
    paths = [Path(f"/dev/shm/envoy_shared_memory_{base_id * 10}") for base_id in ids]
    assert all(path.exists() for path in paths)
    return paths


def nothing_left(config: EnvoyConfig, shared: list[Path]) -> bool:
    left = [*config.directory.glob("base-id-*"), *config.directory.glob("envoy-*")]
    return not left and not any(path.exists() for path in shared)


async def gone(pid: int) -> None:
    while Path(f"/proc/{pid}").exists():  # noqa: ASYNC110 - no event from a stranger
        await asyncio.sleep(0.01)


async def test_a_new_configuration_takes_over_without_losing_a_request(
    proxy_config: ProxyConfig, application: Application, free_port: FreePort, get: Get
) -> None:
    port = free_port()
    config = proxy_config(port, application.port, parent_shutdown_time=timedelta(seconds=2))
    async with running(config) as envoy:
        await envoy.wait_ready(10)
        first = envoy.pid
        async with get(port) as slow:
            await application.arrived.wait()
            async with load_on(port) as load:
                await load.more()
                assert await envoy.restart(changed(config, "two"))
                assert envoy.pid != first
                assert envoy.status.restarts == 1
                assert envoy.status.epoch == 1
                await load.more()
                assert not slow.done()
                application.release.set()
                assert b"200 OK" in await slow
                await gone(first)
                await load.more()
            assert load.failed == []
        assert await envoy.restart() is False
        info = await envoy.admin.server_info()
        shared = shared_memory(config)
        assert '"id": "two"' in json.dumps(info["node"])
    assert shared
    assert nothing_left(config, shared)


async def test_restarts_follow_each_other_and_only_one_runs_at_a_time(
    proxy_config: ProxyConfig, application: Application, free_port: FreePort
) -> None:
    port = free_port()
    config = proxy_config(port, application.port, parent_shutdown_time=timedelta(seconds=1))
    async with running(config) as envoy:
        await envoy.wait_ready(10)
        async with load_on(port) as load:
            for epoch in (1, 2):
                assert await envoy.restart(changed(config, f"v{epoch}"))
                assert envoy.status.epoch == epoch
                assert envoy.status.retiring == 1
            await load.more()
        assert load.failed == []


async def test_a_configuration_envoy_refuses_changes_nothing(
    proxy_config: ProxyConfig, application: Application, free_port: FreePort
) -> None:
    port = free_port()
    config = proxy_config(port, application.port)
    assert isinstance(config.bootstrap, Path)
    async with running(config) as envoy:
        await envoy.wait_ready(10)
        first = envoy.pid
        good = config.bootstrap.read_text()
        config.bootstrap.write_text(good.replace('"1s"', '"soon"'))
        with pytest.raises(RestartRefused, match=r"refused its configuration.*connect_timeout"):
            await envoy.restart()
        assert envoy.pid == first
        assert await envoy.admin.ready()
        assert envoy.status.refused == 1
        assert "connect_timeout" in (envoy.status.last_refusal or "")


async def test_an_envoy_that_fails_while_taking_over_leaves_the_old_one_in_charge(
    proxy_config: ProxyConfig, application: Application, free_port: FreePort
) -> None:
    """A fault that only shows when it is run: an address that is not ours to listen on."""
    port = free_port()
    config = proxy_config(port, application.port, parent_shutdown_time=timedelta(seconds=1))
    assert isinstance(config.bootstrap, Path)
    async with running(config) as envoy:
        await envoy.wait_ready(10)
        first = envoy.pid
        async with load_on(port) as load:
            bootstrap = json.loads(config.bootstrap.read_text())
            listeners = bootstrap["static_resources"]["listeners"]
            bad = json.loads(json.dumps(listeners[0]))
            bad["name"] = "bad"
            bad["address"]["socket_address"]["address"] = "192.0.2.1"
            bad_file = config.bootstrap.with_name("bad.json")
            bootstrap["static_resources"]["listeners"] = [*listeners, bad]
            bad_file.write_text(json.dumps(bootstrap))
            with pytest.raises(RestartRefused, match=r"192\.0\.2\.1"):
                await envoy.restart(replace(config, bootstrap=bad_file))
            assert envoy.state is EnvoyState.READY
            # The failed one closed the admin interface of the old one: a good one takes over.
            await gone(first)
            assert await envoy.admin.ready()
            assert await envoy.restart(changed(config, "better"))
            await load.more()
        assert load.failed == []


async def test_a_killed_envoy_is_started_again(
    proxy_config: ProxyConfig, application: Application, free_port: FreePort, get: Get
) -> None:
    port = free_port()
    config = proxy_config(port, application.port)
    application.release.set()
    async with running(config) as envoy:
        await envoy.wait_ready(10)
        first = envoy.pid
        shared = shared_memory(config)
        os.kill(first, signal.SIGKILL)
        await gone(first)
        await envoy.wait_ready(10)
        assert envoy.pid != first
        assert envoy.status.crashes == 1
        shared += shared_memory(config)
        assert "SIGKILL" in (envoy.status.last_crash or "")
        async with get(port) as response:
            assert b"200 OK" in await response
    assert shared
    assert nothing_left(config, shared)


async def test_crashes_beyond_the_budget_are_given_up_with_the_reason(
    proxy_config: ProxyConfig, application: Application, free_port: FreePort
) -> None:
    config = proxy_config(free_port(), application.port, crashes=CrashPolicy(budget=1))

    async def kill(envoy: Envoy) -> None:
        pid = envoy.pid
        await envoy.wait_ready(10)
        os.kill(pid, signal.SIGSEGV)
        await gone(pid)

    async with running(config) as envoy:
        await kill(envoy)
        await kill(envoy)
        ended = await envoy.wait_exit()
        assert ended.signal == signal.SIGSEGV
        assert "crashed with SIGSEGV" in ended.reason
        assert envoy.state is EnvoyState.EXITED


async def test_hot_restart_can_be_switched_off(
    proxy_config: ProxyConfig, application: Application, free_port: FreePort
) -> None:
    config = proxy_config(free_port(), application.port, hot_restart=False)
    async with running(config) as envoy:
        await envoy.wait_ready(10)
        with pytest.raises(RestartRefused, match="switched off"):
            await envoy.restart(changed(config, "two"))


async def test_stopping_right_after_a_restart_leaves_nothing(
    proxy_config: ProxyConfig, application: Application, free_port: FreePort, get: Get
) -> None:
    port = free_port()
    config = proxy_config(port, application.port, termination_drain=timedelta(seconds=30))
    async with running(config) as envoy:
        await envoy.wait_ready(10)
        async with get(port) as slow:
            await application.arrived.wait()
            await envoy.restart(changed(config, "two"))
            shared = shared_memory(config)
            application.release.set()
            assert b"200 OK" in await slow
    assert shared
    assert nothing_left(config, shared)


async def test_a_stop_waits_for_what_the_old_envoy_still_answers(
    proxy_config: ProxyConfig, application: Application, free_port: FreePort, get: Get
) -> None:
    port = free_port()
    config = proxy_config(port, application.port, termination_drain=timedelta(seconds=2))
    async with AsyncExitStack() as client:
        async with running(config) as envoy:
            await envoy.wait_ready(10)
            slow = await client.enter_async_context(get(port))
            await application.arrived.wait()
            await envoy.restart(changed(config, "two"))
            asyncio.get_running_loop().call_later(0.5, application.release.set)
        assert b"200 OK" in await slow


async def test_connections_of_the_old_envoy_are_counted_once_they_are_reported(
    proxy_config: ProxyConfig, application: Application, free_port: FreePort, get: Get
) -> None:
    port = free_port()
    config = proxy_config(port, application.port, termination_drain=timedelta(seconds=60))
    assert isinstance(config.bootstrap, Path)
    bootstrap = json.loads(config.bootstrap.read_text())
    config.bootstrap.write_text(json.dumps({**bootstrap, "stats_flush_interval": "0.2s"}))
    async with AsyncExitStack() as client:
        async with running(config) as envoy:
            await envoy.wait_ready(10)
            slow = await client.enter_async_context(get(port))
            await application.arrived.wait()
            await envoy.restart(changed(config, "two"))
            # Long after the time in which they are not known.
            asyncio.get_running_loop().call_later(2.5, application.release.set)
        assert b"200 OK" in await slow


async def test_the_new_envoy_survives_the_death_of_the_old_one(
    proxy_config: ProxyConfig,
    application: Application,
    free_port: FreePort,
    caplog: pytest.LogCaptureFixture,
) -> None:
    port = free_port()
    config = proxy_config(port, application.port)
    assert isinstance(config.bootstrap, Path)
    bootstrap = json.loads(config.bootstrap.read_text())
    config.bootstrap.write_text(json.dumps({**bootstrap, "stats_flush_interval": "0.1s"}))

    async def uptime(envoy: Envoy) -> int:
        return int((await envoy.admin.stats("^server.uptime$"))["server.uptime"])

    async with running(config) as envoy:
        await envoy.wait_ready(10)
        old = envoy.pid
        await envoy.restart(changed(config, "two"))
        async with load_on(port) as load:
            os.kill(old, signal.SIGKILL)
            await gone(old)
            # Brought up to date with the other statistics, for which the old one is asked.
            begun = await uptime(envoy)
            while await uptime(envoy) < begun + 2:
                pass
            await load.more()
        assert load.failed == []
        assert envoy.state is EnvoyState.READY
        assert not [message for message in caplog.messages if "connection refused" in message]
        assert await envoy.restart(changed(config, "three"))
