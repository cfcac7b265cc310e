"""Connections wait for the next Envoy after a crash, and never for one that does not come."""

from __future__ import annotations

import asyncio
import json
import logging
import os
import signal
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from envoy_supervisor import (
    CrashPolicy,
    Envoy,
    EnvoyConfig,
    EnvoyState,
    ExitCause,
    RestartRefused,
    running,
)
from envoy_supervisor.handover._retention_decisions import CHECK_INTERVAL_S
from mesh_lifecycle import Backoff, Clock, SystemClock
from mesh_testkit import PATIENCE_S, until
from supervised import (
    FreePort,
    Load,
    LongWaits,
    ProxyConfig,
    SlowApplication,
    StandingClock,
    changed,
    crashed,
    edited,
    holds,
    is_refused,
    killed,
    listener_of,
    load_on,
    saved,
    serving,
    stop_aside,
    until_refused,
    until_said,
    until_state,
)

ENVOYS = (None, *filter(None, os.environ.get("ENVOY_PATHS", "").split(os.pathsep)))
every_envoy = pytest.mark.parametrize("other", ENVOYS, ids=lambda path: path or "installed")

# The first crash is answered at once, the next when the clock says so.
WAITING = Backoff(initial_s=LongWaits.LONG_S, maximum_s=LongWaits.LONG_S, jitter=0.0)


class QuickLooks(SystemClock):
    """Looks after what is held without waiting long between."""

    async def sleep(self, seconds: float) -> None:
        await super().sleep(0.02 if seconds == CHECK_INTERVAL_S else seconds)


@every_envoy
@pytest.mark.parametrize("reuse_port", [True, False], ids=["socket a worker", "shared socket"])
async def test_only_what_was_in_flight_on_the_killed_envoy_fails(
    proxy_config: ProxyConfig,
    application: SlowApplication,
    free_port: FreePort,
    other: str | None,
    *,
    reuse_port: bool,
) -> None:
    port = free_port()
    quick = CrashPolicy(backoff=Backoff(initial_s=0.05, maximum_s=0.05))
    config = proxy_config(port, application.port, concurrency=2, crashes=quick)
    config = replace(config, binary=Path(other) if other else config.binary)
    bootstrap = edited(config)
    listener_of(bootstrap)["enable_reuse_port"] = reuse_port
    saved(config, bootstrap)
    sockets = 2 if reuse_port else 1
    async with serving(config) as envoy, load_on(port) as load:
        in_flight = 0
        for kill in (1, 2, 3):
            slow = [asyncio.create_task(load.ask("/slow"), name="slow") for _ in range(4)]
            await application.arrived.wait()
            application.arrived.clear()
            await load.more()
            await holds(envoy, sockets)
            in_flight += load.open
            await killed(envoy)
            assert envoy.status.handed_over == kill * sockets
            assert envoy.status.epoch == kill
            await load.more()
            application.release.set()
            assert {await task for task in slow} <= {"cut", "answered"}
            application.release.clear()
    assert load.ends["refused"] == 0
    assert load.ends["cut"] <= in_flight


def udp_listener(port: int) -> Any:
    proxy = "type.googleapis.com/envoy.extensions.filters.udp.udp_proxy.v3"
    return {
        "name": "datagrams",
        "address": {
            "socket_address": {"protocol": "UDP", "address": "127.0.0.1", "port_value": port}
        },
        "listener_filters": [
            {
                "name": "udp_proxy",
                "typed_config": {
                    "@type": f"{proxy}.UdpProxyConfig",
                    "stat_prefix": "datagrams",
                    "matcher": {
                        "on_no_match": {
                            "action": {
                                "name": "route",
                                "typed_config": {
                                    "@type": f"{proxy}.Route",
                                    "cluster": "application",
                                },
                            }
                        }
                    },
                },
            }
        ],
    }


@every_envoy
async def test_every_kind_of_address_lets_connections_wait(
    proxy_config: ProxyConfig,
    application: SlowApplication,
    free_port: FreePort,
    socket_dir: Path,
    other: str | None,
) -> None:
    ports = [free_port() for _ in range(3)]
    policy = CrashPolicy(backoff=WAITING)
    config = proxy_config(ports[0], application.port, concurrency=2, crashes=policy)
    config = replace(config, binary=Path(other) if other else config.binary)
    bootstrap = edited(config)
    listener = listener_of(bootstrap)
    six, pipe = json.loads(json.dumps(listener)), json.loads(json.dumps(listener))
    listener["additional_addresses"] = [
        {"address": {"socket_address": {"address": "127.0.0.1", "port_value": ports[1]}}}
    ]
    six["name"], pipe["name"] = "six", "pipe"
    six["address"] = {"socket_address": {"address": "::1", "port_value": ports[2]}}
    pipe["address"] = {"pipe": {"path": str(socket_dir / "listener"), "mode": 0o600}}
    # These two have no connections of their own.
    unbound, datagrams = json.loads(json.dumps(six)), udp_listener(ports[0])
    unbound["name"], unbound["bind_to_port"] = "unbound", False
    unbound["address"]["socket_address"]["port_value"] = 1
    bootstrap["static_resources"]["listeners"] += [six, pipe, unbound, datagrams]
    saved(config, bootstrap)
    clock = LongWaits()
    async with serving(config, clock=clock) as envoy:
        # Two workers, three TCP addresses, and one socket for the pipe.
        await holds(envoy, 7)
        await killed(envoy)
        await holds(envoy, 7)
        os.kill(envoy.pid, signal.SIGKILL)
        await crashed(envoy, 2)
        # No process is there now.
        assert envoy.status.pid is None
        clients = [
            await asyncio.open_connection("127.0.0.1", ports[0]),
            await asyncio.open_connection("127.0.0.1", ports[1]),
            await asyncio.open_connection("::1", ports[2]),
            await asyncio.open_unix_connection(socket_dir / "listener"),
        ]
        assert envoy.status.pid is None
        clock.end()
        for reader, writer in clients:
            writer.write(b"GET /quick HTTP/1.1\r\nhost: a\r\n\r\n")
            assert (await reader.readuntil(b"done")).startswith(b"HTTP/1.1 200")
            writer.close()
        await envoy.wait_ready(PATIENCE_S)
        assert envoy.status.handed_over == 14
    (socket_dir / "listener").unlink()


async def test_nothing_is_kept_when_it_is_switched_off(
    proxy_config: ProxyConfig, application: SlowApplication, free_port: FreePort
) -> None:
    config = proxy_config(free_port(), application.port, retain_sockets=False)
    async with serving(config) as envoy:
        await killed(envoy)
        assert envoy.status.epoch == 0
        assert envoy.status.retained_sockets == envoy.status.handed_over == 0


async def test_an_envoy_that_cannot_take_over_is_followed_by_one_that_starts_anew(
    proxy_config: ProxyConfig, application: SlowApplication, free_port: FreePort
) -> None:
    port = free_port()
    config = proxy_config(port, application.port, crashes=CrashPolicy(backoff=WAITING))
    clock = LongWaits()
    async with serving(config, clock=clock) as envoy:
        await killed(envoy)
        await holds(envoy, 1)
        os.kill(envoy.pid, signal.SIGKILL)
        await crashed(envoy, 2)
        # It waits; somebody clears up in the meantime.
        (shared,) = [
            Path(f"/dev/shm/envoy_shared_memory_{int(file.read_text()) * 10}")
            for file in config.directory.glob("base-id-*-[0-9]")
        ]
        shared.unlink()
        async with load_on(port, workers=1) as load:
            clock.end()
            await until_state(envoy, EnvoyState.READY)
            load.ends.clear()
            await load.more()
        assert load.ends.keys() == {"answered"}
        assert envoy.status.epoch == 0
        await holds(envoy, 1)
    assert [*config.directory.glob("base-id-*")] == []


async def test_a_bootstrap_that_was_refused_is_not_what_a_crash_is_answered_with(
    proxy_config: ProxyConfig, application: SlowApplication, free_port: FreePort
) -> None:
    port = free_port()
    config = proxy_config(port, application.port)
    assert isinstance(config.bootstrap, Path)
    async with serving(config) as envoy:
        await holds(envoy, 1)
        bad = config.bootstrap.read_text().replace('"60s"', '"soon"')
        config.bootstrap.write_text(bad)
        with pytest.raises(RestartRefused, match="connect_timeout"):
            await envoy.restart()
        await killed(envoy)
        async with load_on(port) as load:
            await load.more()
        assert load.ends.keys() == {"answered"}
        assert envoy.status.crashes == 1
        config.bootstrap.unlink()
        await killed(envoy)
    assert [*config.directory.glob("envoy-rev*")] == []


async def test_a_configuration_that_is_bad_by_now_ends_it(
    proxy_config: ProxyConfig, application: SlowApplication, free_port: FreePort
) -> None:
    """Its bootstrap is as it was, but not what that names."""
    port = free_port()
    config = proxy_config(port, application.port)
    page = config.directory / "page"
    page.write_text("hello")
    bootstrap = edited(config)
    (chain,) = listener_of(bootstrap)["filter_chains"]
    (host,) = chain["filters"][0]["typed_config"]["route_config"]["virtual_hosts"]
    body = {"filename": str(page)}
    answer = {"match": {"prefix": "/page"}, "direct_response": {"status": 200, "body": body}}
    host["routes"].insert(0, answer)
    async with serving(saved(config, bootstrap)) as envoy:
        await holds(envoy, 1)
        page.unlink()
        os.kill(envoy.pid, signal.SIGKILL)
        ended = await envoy.wait_exit()
        assert ended.cause is ExitCause.BAD_CONFIGURATION
        # The killed one, its child, and one that had nothing to take over.
        assert envoy.status.crashes == 3
        assert is_refused(port)
        assert envoy.status.retained_sockets == 0


async def test_a_crash_loop_uses_up_its_budget(
    proxy_config: ProxyConfig, application: SlowApplication, free_port: FreePort
) -> None:
    port = free_port()
    backoff = Backoff(initial_s=0.01, maximum_s=0.01)
    quick = CrashPolicy(budget=3, window_s=3600, backoff=backoff)
    config = proxy_config(port, application.port, crashes=quick)
    async with running(config) as envoy:
        for kill in (1, 2, 3, 4):
            await envoy.wait_ready(PATIENCE_S)
            await holds(envoy, 1)
            os.kill(envoy.pid, signal.SIGKILL)
            await crashed(envoy, kill)
        assert (await envoy.wait_exit()).signal == signal.SIGKILL
        assert is_refused(port)
        assert envoy.status.retained_sockets == 0
    assert [*config.directory.glob("base-id-*")] == []


async def test_nothing_is_held_while_envoy_drains(
    proxy_config: ProxyConfig, application: SlowApplication, free_port: FreePort
) -> None:
    port = free_port()
    config = proxy_config(port, application.port)
    async with serving(config) as envoy:
        await holds(envoy, 1)
        await envoy.drain()
        assert envoy.status.retained_sockets == 0
        await killed(envoy)
        assert envoy.status.epoch == 0
        assert envoy.status.retained_sockets == 0


@asynccontextmanager
async def stopping_under_a_request(
    config: EnvoyConfig, application: SlowApplication, port: int, *, clock: Clock | None = None
) -> AsyncIterator[tuple[Envoy, asyncio.Task[str], asyncio.Task[None]]]:
    """An Envoy that is being stopped with a request under way; the request, and the stop."""
    async with AsyncExitStack() as stack:
        envoy = await stack.enter_async_context(serving(config, clock=clock))
        await holds(envoy, 1)
        slow = asyncio.create_task(Load(port).ask("/slow"), name="slow")
        await application.arrived.wait()
        async with stop_aside(stack) as stop:
            yield envoy, slow, stop


async def test_a_stop_refuses_connections_while_old_ones_finish(
    proxy_config: ProxyConfig,
    application: SlowApplication,
    free_port: FreePort,
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.DEBUG, "envoy_supervisor")
    port, clock = free_port(), StandingClock()
    config = proxy_config(port, application.port, termination_drain=timedelta(seconds=60))
    async with stopping_under_a_request(config, application, port, clock=clock) as (_, slow, stop):
        await until_said("connections still open", caplog)
        clock.at = 59.5
        await until_refused(port)
        assert not slow.done()
        application.release.set()
        assert await slow == "answered"
        await stop


async def test_a_kill_while_draining_ends_it(
    proxy_config: ProxyConfig, application: SlowApplication, free_port: FreePort
) -> None:
    port = free_port()
    config = proxy_config(port, application.port, termination_drain=timedelta(seconds=60))
    async with stopping_under_a_request(config, application, port) as (envoy, slow, stop):
        await until_state(envoy, EnvoyState.DRAINING)
        os.kill(envoy.pid, signal.SIGKILL)
        assert await slow == "cut"
        await stop
        assert is_refused(port)
        assert envoy.state is EnvoyState.EXITED


async def test_a_kill_after_a_hot_restart_loses_no_new_connection(
    proxy_config: ProxyConfig, application: SlowApplication, free_port: FreePort
) -> None:
    port = free_port()
    at_once = timedelta(0)
    config = proxy_config(port, application.port, termination_drain=at_once)
    load = Load(port)
    async with serving(config) as envoy:
        await holds(envoy, 1)
        slow = asyncio.create_task(load.ask("/slow"), name="slow")
        await application.arrived.wait()
        changed(config, "two")
        async with load_on(port) as load:
            await envoy.restart()
            await load.more()
            await holds(envoy, 1)
            await load.more()
            await killed(envoy)
            assert envoy.status.epoch == 2
            await load.more()
            # The first one still finishes what it has.
            assert envoy.status.retiring == 1
            application.release.set()
            assert await slow == "answered"
        assert load.ends["refused"] == 0
        assert load.ends["cut"] <= 4


async def test_a_kill_in_the_middle_of_a_hot_restart_loses_no_new_connection(
    proxy_config: ProxyConfig, application: SlowApplication, free_port: FreePort
) -> None:
    port = free_port()
    config = proxy_config(port, application.port)
    async with serving(config) as envoy, load_on(port) as load:
        await holds(envoy, 1)
        first = envoy.pid
        changed(config, "two")
        restart = asyncio.create_task(envoy.restart(), name="restart")
        children = Path(f"/proc/self/task/{os.getpid()}/children")
        await until(
            lambda: envoys_among(children) >= 2,
            what="a second Envoy",
            seen=children.read_text,
        )
        os.kill(first, signal.SIGKILL)
        try:
            assert await restart
        except RestartRefused:
            pytest.fail("it was replaced anyway")
        await load.more()
        assert load.ends["refused"] == 0
        assert load.ends["cut"] <= 4
        assert '"two"' in json.dumps((await envoy.admin.server_info())["node"])


def envoys_among(children: Path) -> int:
    """How many of our children are Envoys that do more than validate."""
    count = 0
    for pid in children.read_text().split():
        try:
            line = Path(f"/proc/{pid}/cmdline").read_bytes()
        except OSError:
            continue
        count += b"--socket-path" in line and b"_exec.py" not in line
    return count


async def test_fewer_workers_take_over_all_connections(
    proxy_config: ProxyConfig, application: SlowApplication, free_port: FreePort
) -> None:
    port = free_port()
    config = proxy_config(port, application.port, concurrency=3, termination_drain=timedelta(0))
    application.release.set()
    async with serving(config) as envoy, load_on(port) as load:
        await holds(envoy, 3)
        await envoy.restart(replace(config, concurrency=1))
        await holds(envoy, 1)
        await load.more(200)
        await killed(envoy)
        await load.more(200)


async def test_a_listener_that_a_hot_restart_removes_refuses_connections(
    proxy_config: ProxyConfig, application: SlowApplication, free_port: FreePort
) -> None:
    ports = [free_port(), free_port()]
    config = proxy_config(ports[0], application.port, termination_drain=timedelta(0))
    bootstrap = edited(config)
    second = json.loads(json.dumps(listener_of(bootstrap)))
    second["name"] = "second"
    second["address"]["socket_address"]["port_value"] = ports[1]
    listeners = bootstrap["static_resources"]["listeners"]
    async with serving(saved(config, with_listeners(bootstrap, [*listeners, second]))) as envoy:
        await holds(envoy, 2)
        saved(config, with_listeners(bootstrap, listeners))
        await envoy.restart()
        await holds(envoy, 1)
        await until_refused(ports[1])
        await killed(envoy)
        assert is_refused(ports[1])
        assert envoy.status.epoch == 2


def with_listeners(bootstrap: Any, listeners: list[Any]) -> Any:
    return {
        **bootstrap,
        "static_resources": {**bootstrap["static_resources"], "listeners": listeners},
    }


def with_dynamic_listeners(config: EnvoyConfig, file: Path, **changes: Any) -> EnvoyConfig:
    """Move the listeners from the bootstrap to a file that Envoy follows."""
    bootstrap = edited(config)
    listeners = bootstrap["static_resources"].pop("listeners")
    publish(file, listeners)
    source = {"path": str(file), "watched_directory": {"path": str(file.parent)}}
    bootstrap["dynamic_resources"] = {"lds_config": {"path_config_source": source}}
    bootstrap["node"] = {"id": "n", "cluster": "c"}
    return replace(saved(config, bootstrap), **changes)


def publish(file: Path, listeners: list[Any]) -> None:
    kind = "type.googleapis.com/envoy.config.listener.v3.Listener"
    resources = [{"@type": kind, **listener} for listener in listeners]
    temporary = file.with_suffix(".new")
    temporary.write_text(json.dumps({"resources": resources}))
    temporary.rename(file)


@every_envoy
async def test_a_listener_that_is_removed_refuses_connections(
    proxy_config: ProxyConfig,
    application: SlowApplication,
    free_port: FreePort,
    tmp_path: Path,
    other: str | None,
) -> None:
    """As an agent does it that passes on what a control plane sends."""
    ports = [free_port(), free_port()]
    config = proxy_config(ports[0], application.port, concurrency=2)
    config = replace(config, binary=Path(other) if other else config.binary)
    first = listener_of(edited(config))
    second = json.loads(json.dumps(first))
    second["name"] = "second"
    second["address"]["socket_address"]["port_value"] = ports[1]
    # Without a socket for each worker, a socket that is held would keep it from coming back.
    second["enable_reuse_port"] = False
    file = tmp_path / "listeners.json"
    config = with_dynamic_listeners(config, file, listener_changes_reported=True)

    async def updates(envoy: Envoy) -> int:
        name = "listener_manager.lds.update_success"
        return int((await envoy.admin.stats(f"^{name}$"))[name])

    async def send(envoy: Envoy, listeners: list[Any]) -> None:
        before = await updates(envoy)
        envoy.listeners_changing()
        assert envoy.status.retained_sockets == 0
        publish(file, listeners)

        async def is_updated() -> bool:
            return await updates(envoy) > before

        await until(is_updated, what="the update of the listeners")
        envoy.listeners_changed()

    async with serving(config) as envoy, load_on(ports[0]) as load:
        await holds(envoy, 2)
        await send(envoy, [first, second])
        await holds(envoy, 3)
        await send(envoy, [first])
        # Envoy closes it when its workers have let go of it.
        await until_refused(ports[1])
        await holds(envoy, 2)
        await killed(envoy)
        assert is_refused(ports[1])
        await holds(envoy, 2)
        await load.more()
        assert load.ends["refused"] == 0
        await send(envoy, [first, second])
        await holds(envoy, 3)
        async with load_on(ports[1]) as back:
            await back.more()
            os.kill(envoy.pid, signal.SIGKILL)
            await crashed(envoy, 2)
            # The next one hears of its listeners, while it starts.
            envoy.listeners_changing()
            await envoy.wait_ready(PATIENCE_S)
            assert envoy.status.handed_over == 2 + 3
            assert envoy.status.retained_sockets == 0
            envoy.listeners_changed()
            await holds(envoy, 3)
            await back.more()
        assert back.ends["refused"] == 0


async def test_listeners_of_a_control_plane_are_held_only_if_changes_are_reported(
    proxy_config: ProxyConfig, application: SlowApplication, free_port: FreePort, tmp_path: Path
) -> None:
    config = proxy_config(free_port(), application.port)
    config = with_dynamic_listeners(config, tmp_path / "listeners.json")
    async with serving(config) as envoy:
        await killed(envoy)
        assert envoy.status.epoch == 0
        assert envoy.status.handed_over == 0


async def test_sockets_that_envoy_closed_unasked_are_let_go(
    proxy_config: ProxyConfig,
    application: SlowApplication,
    free_port: FreePort,
    caplog: pytest.LogCaptureFixture,
) -> None:
    port = free_port()
    config = proxy_config(port, application.port)
    async with serving(config, clock=QuickLooks()) as envoy:
        await holds(envoy, 1)
        # Somebody else talks to the admin interface.
        await envoy.admin.drain_listeners()
        await holds(envoy, 0)
        assert is_refused(port)
        assert "envoy has closed listening sockets that were retained" in caplog.messages
