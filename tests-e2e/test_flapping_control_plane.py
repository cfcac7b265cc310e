"""mesh-discovery is killed and started again and again, beside whole agents under load."""

import asyncio
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from mesh_e2e import (
    COLOUR_MESH,
    another_control_plane,
    colour,
    colour_at,
    configure_colour,
    constant_load,
    kill_control_plane,
    mesh_of,
)
from mesh_e2e import until_listening as control_plane_listens
from mesh_local import RunningWorkload
from mesh_testkit import PATIENCE_S, until

Record = Callable[[str, object], None]

pytestmark = pytest.mark.slow

FLAPPING_S = 120.0
COLOURS = ("green", "blue")


async def _page(workload: RunningWorkload, path: str) -> str:
    url = f"http://{workload.instance.addresses.inbound}:15020{path}"
    async with aiohttp.ClientSession() as session, session.get(url) as answer:
        return await answer.text()


async def _xds(workload: RunningWorkload) -> dict[str, Any]:
    url = f"http://{workload.instance.addresses.inbound}:15020/debug/status"
    async with aiohttp.ClientSession() as session, session.get(url) as answer:
        found: dict[str, Any] = (await answer.json(content_type=None))["xds"]
        return found


def _descriptors(pid: int) -> int:
    return len(os.listdir(f"/proc/{pid}/fd"))  # noqa: PTH208


def _unique_kib(pid: int) -> int:
    lines = Path(f"/proc/{pid}/smaps_rollup").read_text(encoding="ascii").splitlines()
    return sum(int(line.split()[1]) for line in lines if line.startswith("Private_"))


def _streams_ended_by_envoy(metrics: str) -> list[str]:
    return [
        line
        for line in metrics.splitlines()
        if line.startswith("istio_agent_envoy_connection_terminations")
    ]


@pytest.mark.parametrize("delta", ["true", "false"])
async def test_a_flapping_control_plane_costs_no_request_and_ends_no_stream_of_envoys(
    tmp_path: Path, record: Record, monkeypatch: pytest.MonkeyPatch, delta: str
) -> None:
    monkeypatch.setenv("ISTIO_DELTA_XDS", delta)
    loop = asyncio.get_running_loop()
    async with mesh_of(COLOUR_MESH, tmp_path) as mesh:
        frontend = mesh.workload("frontend")
        pid = frontend.agent.pid
        assert pid is not None
        configure_colour(mesh, colour_at(mesh, "blue"))
        async with constant_load(colour(mesh), rate_per_s=20, workers=1) as load:
            async with asyncio.timeout(PATIENCE_S):
                await load.until_served_by("blue")
        versions: dict[str, Any] = {}
        descriptors: list[int] = []
        unique: list[int] = []
        number, in_use_s, accepted_s = 0, 0.0, 0.0
        ended_before = _streams_ended_by_envoy(await _page(frontend, "/stats/prometheus"))
        async with constant_load(colour(mesh), rate_per_s=100) as load:
            kill_control_plane(mesh)
            await mesh.control_plane.wait_ended()
            until_s = loop.time() + FLAPPING_S
            while loop.time() < until_s:
                name = COLOURS[number % 2]
                number += 1
                await asyncio.sleep(1.0)
                configure_colour(mesh, colour_at(mesh, name))
                async with another_control_plane(mesh):
                    listening_at = await control_plane_listens(mesh)
                    last = loop.time() >= until_s - 5.0
                    if not last:
                        await asyncio.sleep(1.0)
                    else:
                        in_use_s = await load.until_served_by(name) - listening_at

                        async def is_accepted() -> bool:
                            versions.clear()
                            versions.update(await _xds(frontend))
                            types = versions["types"].values()
                            return versions["connected"] and all(each["acked"] for each in types)

                        await until(is_accepted, what="Envoy's answers", seen=lambda: versions)
                        accepted_s = loop.time() - listening_at
                        assert versions["streams"] == 1
                descriptors.append(_descriptors(pid))
                unique.append(_unique_kib(pid))
                if last:
                    break
        record("flaps", number)
        record("listening -> in use after the last flap", f"{in_use_s:.2f} s")
        record("listening -> all accepted after the last flap", f"{accepted_s:.2f} s")
        record("agent's descriptors", f"{descriptors[0]} at first, {descriptors[-1]} at last")
        record("agent's unique memory", f"{unique[0]} KiB at first, {unique[-1]} at last")
        record("load", load.report.summary())
        assert load.report.failures == []
        assert _streams_ended_by_envoy(await _page(frontend, "/stats/prometheus")) == ended_before
        assert descriptors[-1] <= max(descriptors[:3]) + 3
