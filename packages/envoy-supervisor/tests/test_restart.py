"""Hot restart and crash recovery of a real Envoy, under load."""

from __future__ import annotations

import asyncio
import json
import logging
import os
import signal
from contextlib import AsyncExitStack
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pytest

from envoy_supervisor import CrashPolicy, EnvoyConfig, EnvoyState, RestartRefused, running
from mesh_testkit import PATIENCE_S, until
from supervised import (
    FreePort,
    Get,
    ProxyConfig,
    SlowApplication,
    StandingClock,
    changed,
    crashed,
    edited,
    gone,
    killed,
    listener_of,
    load_on,
    saved,
    serving,
    stop_aside,
    until_said,
)

AT_ONCE = timedelta(0)
FINISHING = timedelta(seconds=5)
"""For the requests of an old Envoy that is waited for, also on a busy machine."""


def shared_memory(config: EnvoyConfig) -> list[Path]:
    """What the Envoys of this supervisor keep in shared memory."""
    ids = [int(path.read_text()) for path in config.directory.glob("base-id-*-[0-9]")]
    paths = [Path(f"/dev/shm/envoy_shared_memory_{base_id * 10}") for base_id in ids]
    assert all(path.exists() for path in paths)
    return paths


def often_counted(config: EnvoyConfig) -> EnvoyConfig:
    """Have Envoy bring its statistics up to date often, the parent's too."""
    return saved(config, {**edited(config), "stats_flush_interval": "0.1s"})


def nothing_left(config: EnvoyConfig, shared: list[Path]) -> bool:
    left = [*config.directory.glob("base-id-*"), *config.directory.glob("envoy-*")]
    return not left and not any(path.exists() for path in shared)


async def test_a_new_configuration_takes_over_without_losing_a_request(
    proxy_config: ProxyConfig, application: SlowApplication, free_port: FreePort, get: Get
) -> None:
    port = free_port()
    config = proxy_config(port, application.port, termination_drain=AT_ONCE)
    async with serving(config) as envoy:
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
                await load.more()
            assert load.ends.keys() == {"answered"}
        assert await envoy.restart() is False
        info = await envoy.admin.server_info()
        shared = shared_memory(config)
        assert '"id": "two"' in json.dumps(info["node"])
    assert shared
    assert nothing_left(config, shared)


@pytest.mark.slow
async def test_restarts_follow_each_other_and_only_one_runs_at_a_time(
    proxy_config: ProxyConfig, application: SlowApplication, free_port: FreePort
) -> None:
    port = free_port()
    config = proxy_config(
        port,
        application.port,
        parent_shutdown_time=FINISHING,
        termination_drain=AT_ONCE,
    )
    async with serving(config) as envoy:
        async with load_on(port) as load:
            for epoch in (1, 2):
                assert await envoy.restart(changed(config, f"v{epoch}"))
                assert envoy.status.epoch == epoch
                assert envoy.status.retiring <= 1
            await load.more()
        assert load.ends.keys() == {"answered"}


async def test_a_configuration_envoy_refuses_changes_nothing(
    proxy_config: ProxyConfig, application: SlowApplication, free_port: FreePort
) -> None:
    port = free_port()
    config = proxy_config(port, application.port)
    async with serving(config) as envoy:
        first = envoy.pid
        bootstrap = edited(config)
        bootstrap["static_resources"]["clusters"][0]["connect_timeout"] = "soon"
        saved(config, bootstrap)
        with pytest.raises(RestartRefused, match=r"refused its configuration.*connect_timeout"):
            await envoy.restart()
        assert envoy.pid == first
        assert await envoy.admin.ready()
        assert envoy.status.refused == 1
        assert "connect_timeout" in (envoy.status.last_refusal or "")


@pytest.mark.slow
async def test_an_envoy_that_fails_while_taking_over_leaves_the_old_one_in_charge(
    proxy_config: ProxyConfig, application: SlowApplication, free_port: FreePort
) -> None:
    """A fault that only shows when it is run: an address that is not ours to listen on."""
    port = free_port()
    config = proxy_config(
        port,
        application.port,
        parent_shutdown_time=FINISHING,
        termination_drain=AT_ONCE,
    )
    with_fault = replace(config, bootstrap=config.directory / "bad.json")
    bootstrap = edited(config)
    bad = json.loads(json.dumps(listener_of(bootstrap)))
    bad["name"] = "bad"
    bad["address"]["socket_address"]["address"] = "192.0.2.1"
    bootstrap["static_resources"]["listeners"].append(bad)
    saved(with_fault, bootstrap)
    async with serving(config) as envoy:
        first = envoy.pid
        async with load_on(port) as load:
            with pytest.raises(RestartRefused, match=r"192\.0\.2\.1"):
                await envoy.restart(with_fault)
            assert envoy.state is EnvoyState.READY
            # The failed one closed the admin interface of the old one: a good one takes over.
            await gone(first)
            assert await envoy.admin.ready()
            assert await envoy.restart(changed(config, "better"))
            await load.more()
        assert load.ends.keys() == {"answered"}


async def test_a_killed_envoy_is_started_again(
    proxy_config: ProxyConfig, application: SlowApplication, free_port: FreePort, get: Get
) -> None:
    port = free_port()
    config = proxy_config(port, application.port)
    application.release.set()
    async with serving(config) as envoy:
        first = envoy.pid
        shared = shared_memory(config)
        await killed(envoy)
        assert envoy.pid != first
        assert envoy.status.crashes == 1
        shared += shared_memory(config)
        assert "SIGKILL" in (envoy.status.last_crash or "")
        async with get(port) as response:
            assert b"200 OK" in await response
    assert shared
    assert nothing_left(config, shared)


async def test_crashes_beyond_the_budget_are_given_up_with_the_reason(
    proxy_config: ProxyConfig, application: SlowApplication, free_port: FreePort
) -> None:
    policy = CrashPolicy(budget=1, window_s=3600)
    config = proxy_config(free_port(), application.port, crashes=policy)
    async with running(config) as envoy:
        for crash in (1, 2):
            await envoy.wait_ready(PATIENCE_S)
            os.kill(envoy.pid, signal.SIGSEGV)
            await crashed(envoy, crash)
        ended = await envoy.wait_exit()
        assert ended.signal == signal.SIGSEGV
        assert "crashed with SIGSEGV" in ended.reason
        assert envoy.state is EnvoyState.EXITED


async def test_hot_restart_can_be_switched_off(
    proxy_config: ProxyConfig, application: SlowApplication, free_port: FreePort
) -> None:
    config = proxy_config(free_port(), application.port, hot_restart=False)
    async with serving(config) as envoy:
        with pytest.raises(RestartRefused, match="switched off"):
            await envoy.restart(changed(config, "two"))


async def test_stopping_right_after_a_restart_leaves_nothing(
    proxy_config: ProxyConfig, application: SlowApplication, free_port: FreePort, get: Get
) -> None:
    port = free_port()
    config = proxy_config(port, application.port, termination_drain=timedelta(seconds=60))
    async with serving(often_counted(config)) as envoy:
        async with get(port) as slow:
            await application.arrived.wait()
            await envoy.restart(changed(config, "two"))
            shared = shared_memory(config)
            application.release.set()
            assert b"200 OK" in await slow
    assert shared
    assert nothing_left(config, shared)


@pytest.mark.parametrize("reported", [False, True])
async def test_a_stop_waits_for_what_the_old_envoy_still_answers(
    *,
    proxy_config: ProxyConfig,
    application: SlowApplication,
    free_port: FreePort,
    get: Get,
    caplog: pytest.LogCaptureFixture,
    reported: bool,
) -> None:
    """Whether the new Envoy counts the old one's connections already, or may not do so yet."""
    caplog.set_level(logging.DEBUG, "envoy_supervisor")
    port, clock = free_port(), StandingClock()
    config = proxy_config(port, application.port, termination_drain=timedelta(seconds=60))

    async def is_counted() -> bool:
        active = await envoy.admin.stats(f"^listener.127.0.0.1_{port}.downstream_cx_active$")
        return sum(map(int, active.values())) == 1

    async with AsyncExitStack() as stack:
        envoy = await stack.enter_async_context(serving(often_counted(config), clock=clock))
        async with get(port) as slow:
            await application.arrived.wait()
            await envoy.restart(changed(config, "two"))
            if reported:
                await until(is_counted, what="the old one's connection to be counted")
                clock.at = 10
            async with stop_aside(stack) as stop:
                await until_said("connections still open", caplog)
                application.release.set()
                assert b"200 OK" in await slow
                clock.at = 20
                await stop


async def test_the_new_envoy_survives_the_death_of_the_old_one(
    proxy_config: ProxyConfig,
    application: SlowApplication,
    free_port: FreePort,
    caplog: pytest.LogCaptureFixture,
) -> None:
    port = free_port()
    config = proxy_config(port, application.port, termination_drain=AT_ONCE)

    async def uptime() -> int:
        return int((await envoy.admin.stats("^server.uptime$"))["server.uptime"])

    async def is_longer_up() -> bool:
        return await uptime() > begun

    async with serving(often_counted(config)) as envoy:
        old = envoy.pid
        await envoy.restart(changed(config, "two"))
        async with load_on(port) as load:
            os.kill(old, signal.SIGKILL)
            await gone(old)
            # Brought up to date with the other statistics, for which the old one is asked.
            begun = await uptime()
            await until(is_longer_up, what="later statistics")
            # Until somebody answers in its place, Envoy may be refused; not any more from then on.
            refused = refusals(caplog)
            begun = await uptime()
            await until(is_longer_up, what="still later statistics")
            assert refusals(caplog) == refused
            await load.more()
        assert load.ends.keys() == {"answered"}
        assert envoy.state is EnvoyState.READY
        assert await envoy.restart(changed(config, "three"))


def refusals(caplog: pytest.LogCaptureFixture) -> int:
    """Counts the times Envoy found no parent to ask."""
    return sum("connection refused" in message for message in caplog.messages)


async def test_the_new_envoy_survives_an_old_one_that_dies_without_an_answer(
    proxy_config: ProxyConfig, application: SlowApplication, free_port: FreePort
) -> None:
    port = free_port()
    config = proxy_config(port, application.port, termination_drain=AT_ONCE)

    async def waits_for_the_old_one() -> bool:
        try:
            async with asyncio.timeout(1):
                await envoy.admin.server_info()
        except TimeoutError:
            return True
        return False

    async with serving(often_counted(config)) as envoy:
        old = envoy.pid
        await envoy.restart(changed(config, "two"))
        os.kill(old, signal.SIGSTOP)
        await until(waits_for_the_old_one, what="an Envoy that is not answered")
        os.kill(old, signal.SIGKILL)
        await gone(old)
        assert await envoy.restart(changed(config, "three"))
