"""Metrics of a supervised Envoy, on a registry of the caller's."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from datetime import timedelta
from pathlib import Path

import pytest
from prometheus_client import CollectorRegistry, generate_latest

from envoy_supervisor import CrashPolicy, RestartRefused, running
from envoy_supervisor._metrics import start_time
from envoy_supervisor.metrics import EnvoyMetrics
from mesh_lifecycle import Backoff
from mesh_testkit import PATIENCE_S
from supervised import Fake, FreePort, ProxyConfig, crashed, serving


@pytest.fixture
def registry() -> CollectorRegistry:
    return CollectorRegistry()


def values(registry: CollectorRegistry) -> dict[str, float]:
    samples = [sample for metric in registry.collect() for sample in metric.samples]
    return {
        sample.name.removeprefix("mesh_agent_envoy_") + sample.labels.get("state", ""): sample.value
        for sample in samples
    }


async def test_what_happens_to_envoy_can_be_read_off(
    fake: Fake, registry: CollectorRegistry
) -> None:
    quick = CrashPolicy(budget=3, backoff=Backoff(initial_s=0.001, maximum_s=0.002))
    config, _ = fake(crashes=quick)
    metrics = EnvoyMetrics(registry)
    assert generate_latest(registry) == b""
    async with serving(config) as envoy:
        metrics.show(envoy)
        shown = values(registry)
        assert abs(shown.pop("start_time_seconds") - time.time()) < 60
        assert shown == {
            "statestarting": 0,
            "stateready": 1,
            "statedraining": 0,
            "stateexited": 0,
            "epoch": 0,
            "retiring": 0,
            "restarts_total": 0,
            "restarts_refused_total": 0,
            "retained_sockets": 0,
            "crashes_total": 0,
            "sockets_handed_over_total": 0,
        }
        os.kill(envoy.pid, signal.SIGKILL)
        await crashed(envoy, 1)
        await envoy.wait_ready(PATIENCE_S)
        assert values(registry)["crashes_total"] == 1
        await envoy.drain()
        assert values(registry)["statedraining"] == 1
    shown = values(registry)
    assert shown["stateexited"] == 1
    assert "start_time_seconds" not in shown
    assert b'mesh_agent_envoy_state{state="exited"} 1.0' in generate_latest(registry)


async def test_hot_restarts_are_counted(
    proxy_config: ProxyConfig, free_port: FreePort, registry: CollectorRegistry
) -> None:
    config = proxy_config(free_port(), 1, parent_shutdown_time=timedelta(seconds=1))
    assert isinstance(config.bootstrap, Path)
    good = config.bootstrap.read_text()
    async with running(config) as envoy:
        EnvoyMetrics(registry, prefix="").show(envoy)
        await envoy.wait_ready(PATIENCE_S)
        started = values(registry)["envoy_start_time_seconds"]
        config.bootstrap.write_text(f"{good}\n")
        assert await envoy.restart()
        config.bootstrap.write_text(good.replace('"60s"', '"-1s"'))
        with pytest.raises(RestartRefused):
            await envoy.restart()
        shown = values(registry)
    counted = ("envoy_restarts_total", "envoy_restarts_refused_total", "envoy_epoch")
    assert [shown[name] for name in counted] == [1, 1, 1]
    assert shown["envoy_start_time_seconds"] > started


def test_a_process_tells_when_it_started(tmp_path: Path) -> None:
    (tmp_path / "7").mkdir()
    ticks = os.sysconf("SC_CLK_TCK")
    fields = " ".join(["S", *["0"] * 18, str(30 * ticks), "0", "0"])
    (tmp_path / "7" / "stat").write_text(f"7 (a ) (b) {fields}\n")
    (tmp_path / "stat").write_text("cpu 1 2 3\nbtime 1700000000\nprocesses 9\n")
    assert start_time(7, proc=tmp_path) == 1_700_000_030
    assert start_time(8, proc=tmp_path) is None


def test_the_package_does_without_the_metrics_library() -> None:
    program = (
        "import sys, envoy_supervisor, envoy_supervisor.__main__, envoy_supervisor.testing\n"
        "assert 'prometheus_client' not in sys.modules"
    )
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    subprocess.run([sys.executable, "-c", program], check=True, env=environment)
