"""The control plane may die, come back and be given nonsense: the data plane goes on."""

import asyncio
from collections.abc import Callable
from contextlib import AsyncExitStack
from pathlib import Path

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
from mesh_local import RunningMesh
from mesh_testkit import until

Record = Callable[[str, object], None]


def connected(mesh: RunningMesh) -> bool:
    return all(each.status is not None and each.status.xds_connected for each in mesh.workloads)


async def until_it_answers(mesh: RunningMesh) -> None:
    """Wait for the first configuration to arrive, before which failures mean nothing."""
    async with constant_load(colour(mesh), rate_per_s=20, workers=1) as load:
        await load.until_answered(1)


@pytest.mark.slow
async def test_the_control_plane_is_killed_and_comes_back_under_load(
    tmp_path: Path, record: Record
) -> None:
    loop = asyncio.get_running_loop()
    async with mesh_of(COLOUR_MESH, tmp_path) as mesh, AsyncExitStack() as stack:
        configure_colour(mesh, colour_at(mesh, "blue"))
        await until_it_answers(mesh)
        async with constant_load(colour(mesh), rate_per_s=200) as load:
            await load.until_answered(100)
            killed_at = loop.time()
            kill_control_plane(mesh)
            await until(lambda: not connected(mesh), what="the agents' noticing it")
            await load.until_answered(100)
            await stack.enter_async_context(another_control_plane(mesh))
            await until(
                lambda: connected(mesh),
                what="the agents' return to the new control plane",
                seen=lambda: [each.status for each in mesh.workloads],
            )
            record("control plane killed -> all agents connected", _ms(killed_at))
            await load.until_answered(100)
            edited_at = loop.time()
            configure_colour(mesh, colour_at(mesh, "green"))
            await load.until_served_by("green")
            record("edit after the restart -> Envoy uses it", _ms(edited_at))
            seen = load.report.bodies["green"]
            await load.until_answered(50)
            assert load.report.bodies["green"] >= seen + 40, "the other one is in use still"
        record("load", load.report.summary())
        assert load.report.failures == []


@pytest.mark.slow
async def test_an_edited_endpoint_is_in_use_soon(tmp_path: Path, record: Record) -> None:
    loop = asyncio.get_running_loop()
    async with mesh_of(COLOUR_MESH, tmp_path) as mesh:
        configure_colour(mesh, colour_at(mesh, "blue"))
        await until_it_answers(mesh)
        async with constant_load(colour(mesh), rate_per_s=200) as load:
            await load.until_served_by("blue")
            taken = []
            for workload in ("green", "blue", "green", "blue", "green"):
                edited_at = loop.time()
                configure_colour(mesh, colour_at(mesh, workload))
                await load.until_served_by(workload)
                taken.append(loop.time() - edited_at)
                await load.until_answered(40)  # those under way to the old one come back
        record("edit -> Envoy uses it", ", ".join(f"{each * 1000:.0f} ms" for each in taken))
        assert load.report.failures == []


@pytest.mark.slow
async def test_an_invalid_configuration_keeps_the_last_good_one(tmp_path: Path) -> None:
    async with mesh_of(COLOUR_MESH, tmp_path) as mesh:
        log = mesh.control_plane.spec.log
        configure_colour(mesh, colour_at(mesh, "blue"))
        await until_it_answers(mesh)
        async with constant_load(colour(mesh), rate_per_s=100) as load:
            for nonsense, sentence in (
                ("spec: [1,\n", "colour.yaml:2: not valid YAML"),
                (
                    colour_at(mesh, "green").replace("resolution", "revolution"),
                    "colour.yaml:7: spec.revolution: unknown field; did you mean resolution?",
                ),
            ):
                configure_colour(mesh, nonsense)
                await until(lambda: sentence in log.read_text(), what=sentence)  # noqa: B023
                await load.until_answered(50)
                assert set(load.report.bodies) == {"blue"}
            configure_colour(mesh, colour_at(mesh, "green"))
            await load.until_served_by("green")
        assert load.report.failures == []


def _ms(since: float) -> str:
    return f"{(asyncio.get_running_loop().time() - since) * 1000:.0f} ms"
