"""Envoys are replaced under load, and one is killed: no request is lost that need not be."""

import asyncio
import json
import os
import shutil
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from prometheus_client.parser import text_string_to_metric_families

from mesh_e2e import Target, admin, alive, constant_load, mesh_of, run_command, send
from mesh_local import RunningWorkload
from mesh_testkit import until

pytestmark = pytest.mark.slow

Record = Callable[[str, object], None]

MESH = """\
    workloads:
      - {name: backend, ports: [{port: 8080}], command: ECHO}
      - {name: frontend}
"""
STATUS_PORT = 15020
LISTENER = "type.googleapis.com/envoy.config.listener.v3.Listener"


async def ask(workload: RunningWorkload, path: str) -> tuple[int, bytes]:
    inbound = workload.instance.addresses.inbound
    return await send(Target(host=inbound, port=STATUS_PORT, url=path))


async def status(workload: RunningWorkload) -> Any:
    return json.loads((await ask(workload, "/debug/status"))[1])


async def metrics(workload: RunningWorkload) -> dict[str, float]:
    """Samples without labels, as Prometheus reads them."""
    text = (await ask(workload, "/stats/prometheus"))[1].decode()
    found = text_string_to_metric_families(text)
    return {s.name: s.value for metric in found for s in metric.samples if not s.labels}


async def restart(workload: RunningWorkload, directory: Path) -> None:
    code, output, errors = await run_command(
        *("mesh_agent", "request", "POST", "restart"),
        *("--address", workload.instance.addresses.inbound, "--debug-port", str(STATUS_PORT)),
        environment=os.environ,
        directory=directory,
    )
    assert (code, output) == (0, "a new envoy has taken over\n\n"), errors


async def until_status(
    workload: RunningWorkload, condition: Callable[[Any], object], *, what: str
) -> Any:
    """Wait until the status is as wanted; returns it."""
    seen: list[Any] = []

    async def holds() -> bool:
        seen[:] = [await status(workload)]
        return bool(condition(seen[0]))

    await until(holds, what=what, seen=lambda: seen)
    return seen[0]


def accepted_after(time: str) -> Callable[[Any], bool]:
    """Whether a status tells of listeners that Envoy has accepted later than that."""

    def is_accepted(status: Any) -> bool:
        listeners = status["xds"]["types"][LISTENER]
        return bool(listeners["acked"] and listeners["at"] > time)

    return is_accepted


async def test_envoys_are_replaced_and_a_killed_one_recovers_under_load(
    tmp_path: Path, envoy_binary: Path, record: Record
) -> None:
    loop = asyncio.get_running_loop()
    envoy = tmp_path / "envoy"
    envoy.symlink_to(envoy_binary)
    environ = {**os.environ, "ENVOY_PATH": str(envoy)}
    async with mesh_of(MESH, tmp_path, environ=environ) as mesh:
        backend, frontend = both = mesh.workload("backend"), mesh.workload("frontend")
        target = Target(
            host=frontend.instance.addresses.outbound,
            port=15002,
            url="http://backend:8080/",
            authority="backend",
        )
        before = [await status(workload) for workload in both]
        async with constant_load(target, rate_per_s=200) as load:
            await load.until_answered(100)
            shutil.copy(envoy_binary, tmp_path / "newer")
            (tmp_path / "newer").rename(envoy)  # as a package manager upgrades it
            for workload, first in zip(both, before, strict=True):
                started = loop.time()
                await restart(workload, tmp_path)
                record(f"{workload.instance.name}: hot restart", f"{loop.time() - started:.2f} s")
                now = await until_status(
                    workload,
                    accepted_after(first["xds"]["types"][LISTENER]["at"]),
                    what="the new Envoy to accept its configuration",
                )
                assert (now["envoy"]["epoch"], now["envoy"]["restarts"]) == (1, 1)
                assert now["envoy"]["pid"] != first["envoy"]["pid"]
                assert now["xds"]["streams"] == 2, "the old Envoy still has its own"
                info = await admin(workload, "/server_info")
                assert info["command_line_options"]["restart_epoch"] == 1
                await load.until_answered(300)
            values = await metrics(backend)
            assert (
                values["mesh_agent_envoy_epoch"] == values["mesh_agent_envoy_restarts_total"] == 1
            )
            assert values["mesh_agent_certificate_in_use"] == values["envoy_server_live"] == 1
            record("while both were replaced", load.report.summary())
            assert load.report.failures == []

            now = await until_status(
                backend, lambda now: now["envoy"]["retained_sockets"], what="its sockets to be held"
            )
            agent, killed = backend.agent.pid, now["envoy"]["pid"]
            killed_at = loop.time()
            os.kill(killed, signal.SIGKILL)
            await until_status(
                backend, lambda now: now["envoy"]["crashes"], what="its end to be noticed"
            )
            record("killed -> noticed", f"{(loop.time() - killed_at) * 1000:.0f} ms")
            await until_status(backend, lambda now: now["ready"], what="the backend to be ready")
            record("killed -> ready again", f"{loop.time() - killed_at:.2f} s")
            await load.until_answered(200)
        last = max((each.failed_at for each in load.report.failures), default=killed_at)
        record("killed -> last failed request", f"{last - killed_at:.2f} s")
        record("failed after the kill", len(load.report.failures))
        now = await status(backend)
        assert backend.agent.pid == agent, "in place"
        assert now["envoy"]["crashes"] == 1
        assert now["envoy"]["handed_over"] > 0, "connections waited for the new Envoy"
        assert now["envoy"]["pid"] != killed
        seen = [first["envoy"]["pid"] for first in before]
        seen += [(await status(workload))["envoy"]["pid"] for workload in both]
    assert not any(alive(pid) for pid in seen), "nothing outlives its agent"
