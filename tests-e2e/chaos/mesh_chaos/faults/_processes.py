"""Programs killed, stopped for a while, replaced, left without descriptors, and pestered."""

import asyncio
import resource
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import psutil

from mesh_chaos._parts import stopped
from mesh_chaos._schedule import Fault
from mesh_chaos._world import World
from mesh_e2e import mesh_client_context, run_command, stalled_streams

_SPARE_DESCRIPTORS = 2
_STREAMS = 60


async def envoy_killed(world: World, fault: Fault) -> None:
    await world.kill_envoys(fault.target)


async def envoy_stopped(world: World, fault: Fault) -> None:
    with stopped(*world.agent(fault.target).envoys()):
        await asyncio.sleep(fault.lasts_s)
    await world.until_ready(fault.target)


async def hot_restart(world: World, fault: Fault) -> None:
    world.exchange_binary()
    address = world.workload(fault.target).instance.addresses.inbound
    code, output, errors = await run_command(
        *("mesh_agent", "request", "POST", "restart", "--address", address),
        *("--debug-port", "15020"),
        environment=world.environment,
        directory=world.directory,
    )
    if code != 0:
        world.problem(f"the hot restart failed: {(output + errors).strip()}")
    await world.until_ready(fault.target)


async def agent_killed(world: World, fault: Fault) -> None:
    await world.take_away(fault.target)
    await asyncio.sleep(fault.lasts_s)
    await world.bring_back(fault.target)


async def agent_stopped(world: World, fault: Fault) -> None:
    with stopped(world.agent(fault.target).pid):
        await asyncio.sleep(fault.lasts_s)
    await world.until_ready(fault.target)


async def agent_few_descriptors(world: World, fault: Fault) -> None:
    with few_descriptors(world.agent(fault.target).pid):
        await asyncio.sleep(fault.lasts_s)
    await world.until_ready(fault.target)


async def control_plane_killed(world: World, fault: Fault) -> None:  # noqa: ARG001
    await world.control_plane.kill()
    await world.control_plane.start()
    await world.until_ready("control plane")


async def control_plane_away(world: World, fault: Fault) -> None:
    await world.control_plane.kill()
    await asyncio.sleep(fault.lasts_s)
    await world.control_plane.start()
    await world.until_ready("control plane")


async def control_plane_stopped(world: World, fault: Fault) -> None:
    """The authority, which is a part of it, does not answer either."""
    with stopped(world.control_plane.pid):
        await asyncio.sleep(fault.lasts_s)
    await world.until_ready("control plane")


async def control_plane_few_descriptors(world: World, fault: Fault) -> None:
    with few_descriptors(world.control_plane.pid):
        await asyncio.sleep(fault.lasts_s)
    await world.until_ready("control plane")


async def unread_streams(world: World, fault: Fault) -> None:
    """One identity of the mesh asks for everything on many streams, and reads none of it."""
    plane = world.mesh.plan.block.control_plane
    hog = mesh_client_context(
        world.mesh, world.directory / "hog", "spiffe://cluster.local/ns/default/sa/hog"
    )
    hog.set_alpn_protocols(["h2"])
    prefix = f"hog-{fault.number}"
    async with stalled_streams((plane, 15012), _STREAMS, node_prefix=prefix, tls=hog):
        await asyncio.sleep(fault.lasts_s)
    await world.until_ready("control plane")


@contextmanager
def few_descriptors(pid: int) -> Iterator[None]:
    """Leave a process next to no further descriptors."""
    soft, hard = resource.prlimit(pid, resource.RLIMIT_NOFILE)
    taken = max(int(each.name) for each in Path(f"/proc/{pid}/fd").iterdir())
    limit = min(taken + 1 + _SPARE_DESCRIPTORS, hard)
    resource.prlimit(pid, resource.RLIMIT_NOFILE, (limit, hard))
    try:
        yield
    finally:
        with suppress(ProcessLookupError, psutil.NoSuchProcess):
            resource.prlimit(pid, resource.RLIMIT_NOFILE, (soft, hard))
