"""Stopping in the middle of something else."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from contextlib import AsyncExitStack
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any, Protocol

import pytest

from envoy_supervisor import AdminError, Envoy, EnvoyConfig, RestartRefused, running


class ProxyConfig(Protocol):
    def __call__(self, listen: int, application: int, **changes: Any) -> EnvoyConfig: ...


class Application(Protocol):
    arrived: asyncio.Event
    release: asyncio.Event
    port: int


Get = Callable[[int], Any]
FreePort = Callable[[], int]


def never_ready(config: EnvoyConfig) -> EnvoyConfig:
    """The same, but it waits for a control plane that is not there."""
    assert isinstance(config.bootstrap, Path)
    bootstrap = json.loads(config.bootstrap.read_text())
    bootstrap["node"] = {"id": "n", "cluster": "c"}
    bootstrap["dynamic_resources"] = {
        "lds_config": {
            "resource_api_version": "V3",
            "initial_fetch_timeout": "0s",
            "api_config_source": {
                "api_type": "GRPC",
                "transport_api_version": "V3",
                "grpc_services": [{"envoy_grpc": {"cluster_name": "application"}}],
            },
        }
    }
    file = config.bootstrap.with_name("never-ready.json")
    file.write_text(json.dumps(bootstrap))
    return replace(config, bootstrap=file)


async def epoch_at_admin(envoy: Envoy) -> object:
    try:
        options = (await envoy.admin.server_info())["command_line_options"]
    except AdminError:
        return None
    return options.get("restart_epoch", 0) if isinstance(options, dict) else None


async def test_a_stop_in_the_middle_of_a_hot_restart_waits_for_open_requests(
    proxy_config: ProxyConfig, application: Application, free_port: FreePort, get: Get
) -> None:
    port = free_port()
    config = proxy_config(port, application.port, termination_drain=timedelta(seconds=3))
    async with AsyncExitStack() as client:
        async with running(config) as envoy:
            await envoy.wait_ready(60)
            slow = await client.enter_async_context(get(port))
            await application.arrived.wait()
            restart = asyncio.create_task(envoy.restart(never_ready(config)), name="restart")
            while await epoch_at_admin(envoy) != 1:  # noqa: ASYNC110 - no event
                await asyncio.sleep(0.02)
            asyncio.get_running_loop().call_later(1.5, application.release.set)
        assert b"200 OK" in await slow
        with pytest.raises(RestartRefused):
            await restart
