"""Stopping in the middle of something else."""

from __future__ import annotations

import asyncio
import logging
from contextlib import AsyncExitStack
from dataclasses import replace
from datetime import timedelta

import pytest

from envoy_supervisor import AdminError, Envoy, EnvoyConfig, RestartRefused
from envoy_supervisor.decisions._drain_decisions import MOST_FAILURES
from mesh_testkit import until
from supervised import (
    FreePort,
    Get,
    ProxyConfig,
    SlowApplication,
    StandingClock,
    edited,
    saved,
    serving,
    stop_aside,
)


def never_ready(config: EnvoyConfig) -> EnvoyConfig:
    """The same, but it waits for a control plane that is not there."""
    bootstrap = edited(config)
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
    file = config.directory / "never-ready.json"
    return saved(replace(config, bootstrap=file), bootstrap)


async def epoch_at_admin(envoy: Envoy) -> object:
    try:
        options = (await envoy.admin.server_info())["command_line_options"]
    except AdminError:
        return None
    return options.get("restart_epoch", 0) if isinstance(options, dict) else None


async def test_a_stop_in_the_middle_of_a_hot_restart_waits_for_open_requests(
    proxy_config: ProxyConfig,
    application: SlowApplication,
    free_port: FreePort,
    get: Get,
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.DEBUG, "envoy_supervisor")
    port, clock = free_port(), StandingClock()
    config = proxy_config(port, application.port, termination_drain=timedelta(seconds=60))
    looks = ("open connections are not known", "connections still open")
    async with AsyncExitStack() as stack:
        envoy = await stack.enter_async_context(serving(config, clock=clock))
        async with get(port) as slow:
            await application.arrived.wait()
            restart = asyncio.create_task(envoy.restart(never_ready(config)), name="restart")

            async def child_has_taken_over() -> bool:
                return await epoch_at_admin(envoy) == 1

            await until(child_has_taken_over, what="the child at the admin interface")
            async with stop_aside(stack) as stop:
                await until(
                    lambda: sum(each in looks for each in caplog.messages) > MOST_FAILURES,
                    what="more looks in vain than would mean that Envoy is gone",
                    seen=lambda: caplog.messages,
                )
                assert not slow.done()
                application.release.set()
                assert b"200 OK" in await slow
                clock.at = 60
                await stop
            with pytest.raises(RestartRefused):
                await restart
