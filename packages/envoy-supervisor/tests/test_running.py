"""A real Envoy from start to end."""

from __future__ import annotations

import logging
import os
import socket
from contextlib import AsyncExitStack
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pytest

from envoy_supervisor import (
    Address,
    BootstrapConfig,
    CrashPolicy,
    DrainDirection,
    EnvoyConfig,
    EnvoyExited,
    EnvoyNotReady,
    EnvoyState,
    ExitCause,
    UnixAddress,
    running,
)
from mesh_testkit import PATIENCE_S
from supervised import (
    FreePort,
    Get,
    ProxyConfig,
    SlowApplication,
    is_refused,
    serving,
    stop_aside,
    until_said,
)


def names(directory: Path) -> set[str]:
    return {path.name for path in directory.iterdir()}


async def test_envoy_starts_serves_and_leaves_nothing(
    proxy_config: ProxyConfig, application: SlowApplication, free_port: FreePort, get: Get
) -> None:
    application.release.set()
    port = free_port()
    config = proxy_config(port, application.port)
    directory = config.directory
    async with serving(config) as envoy:
        base_id = int((directory / f"base-id-{os.getpid()}-0").read_text())
        memory = Path(f"/dev/shm/envoy_shared_memory_{base_id * 10}")
        assert memory.name in names(memory.parent)
        assert str(envoy.state) == "ready"
        # A terminal's Ctrl-C goes to a whole process group; Envoy is in one of its own.
        assert os.getpgid(envoy.pid) == envoy.pid
        async with get(port) as response:
            await envoy.drain()
            assert b"200 OK" in await response
    stopped = await envoy.wait_exit()
    assert (stopped.cause, stopped.code) == (ExitCause.STOPPED, 0)
    assert str(envoy.state) == "exited"
    assert not any(name.startswith(("base-id-", "envoy-", "admin")) for name in names(directory))
    assert not memory.exists()
    with pytest.raises(ProcessLookupError):
        os.kill(envoy.pid, 0)


@pytest.mark.parametrize("direction", DrainDirection)
async def test_a_request_in_flight_finishes_when_envoy_is_stopped(
    *,
    proxy_config: ProxyConfig,
    application: SlowApplication,
    free_port: FreePort,
    get: Get,
    direction: DrainDirection,
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.INFO, "envoy_supervisor")
    port = free_port()
    config = proxy_config(
        port,
        application.port,
        termination_drain=timedelta(seconds=60),
        drain_direction=direction,
    )
    async with AsyncExitStack() as stack:
        envoy = await stack.enter_async_context(serving(config))
        async with get(port) as response:
            await application.arrived.wait()
            async with stop_aside(stack) as stop:
                await until_said("envoy is draining", caplog)
                assert str(envoy.state) == "draining"
                assert not response.done()
                application.release.set()
                answer = await response
                assert answer.startswith(b"HTTP/1.1 200 OK")
                assert b"connection: close" in answer
                await stop
        assert is_refused(port)
        assert str(envoy.state) == "exited"


async def test_what_is_open_at_the_deadline_is_cut(
    proxy_config: ProxyConfig, application: SlowApplication, free_port: FreePort, get: Get
) -> None:
    port = free_port()
    config = proxy_config(port, application.port, termination_drain=timedelta(seconds=0.3))
    async with AsyncExitStack() as client:
        async with serving(config) as envoy:
            response = await client.enter_async_context(get(port))
            await application.arrived.wait()
        assert await response == b""
    assert (await envoy.wait_exit()).cause is ExitCause.STOPPED


async def test_a_configuration_envoy_refuses_is_reported_in_its_own_words(
    envoy_binary: Path, tmp_path: Path
) -> None:
    bootstrap = tmp_path / "bootstrap.json"
    bootstrap.write_text('{"static_resources": {"clusters": [{"name": 7, "nonsense": 1}]}}')
    config = EnvoyConfig(
        binary=envoy_binary,
        bootstrap=bootstrap,
        directory=tmp_path,
        admin=UnixAddress(path=tmp_path / "admin"),
    )
    async with running(config) as envoy:
        with pytest.raises(EnvoyExited, match=r"refused its configuration.*invalid") as caught:
            await envoy.wait_ready(PATIENCE_S)
        assert caught.value.exit.cause is ExitCause.BAD_CONFIGURATION
        assert (await envoy.wait_exit()).code == 1
    assert bootstrap.exists()


async def test_a_port_in_use_is_named(
    envoy_binary: Path, tmp_path: Path, bootstrap_config: BootstrapConfig
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        config = EnvoyConfig(
            binary=envoy_binary,
            bootstrap=replace(bootstrap_config, admin=Address(host="127.0.0.1", port=port)),
            directory=tmp_path / "envoy",
            crashes=CrashPolicy(budget=1, window_s=3600),
        )
        async with running(config) as envoy:
            ended = await envoy.wait_exit()
            assert ended.cause is ExitCause.PORT_IN_USE
            assert f"127.0.0.1:{port}" in ended.reason
    assert names(tmp_path / "envoy") == set()


async def test_without_control_plane_envoy_waits_and_is_not_ready(
    envoy_binary: Path, socket_dir: Path, bootstrap_config: BootstrapConfig
) -> None:
    config = EnvoyConfig(
        binary=envoy_binary, bootstrap=bootstrap_config, directory=socket_dir / "envoy"
    )
    async with running(config) as envoy:
        with pytest.raises(EnvoyNotReady, match=r"was not ready within 0\.3 s"):
            await envoy.wait_ready(0.3)
        assert envoy.state is EnvoyState.STARTING
        assert (config.directory / "envoy-rev0.json").stat().st_mode & 0o777 == 0o600
    assert names(config.directory) == set()


async def test_the_admin_interface_answers_over_a_unix_socket(
    proxy_config: ProxyConfig, application: SlowApplication, free_port: FreePort
) -> None:
    port = free_port()
    async with serving(proxy_config(port, application.port)) as envoy:
        assert (await envoy.admin.server_info())["state"] == "LIVE"
        assert (await envoy.admin.stats("^server.state$")) == {"server.state": 0}
        assert f"listener.127.0.0.1_{port}.downstream_cx_active" in await envoy.admin.stats()
        assert await envoy.admin.certs() == []
        assert "configs" in await envoy.admin.config_dump()
        await envoy.admin.quit()
        ended = await envoy.wait_exit()
        assert ended.code == 0
        assert "exited by itself" in ended.reason
