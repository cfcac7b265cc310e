"""Programs killed, stopped for a while, replaced, and left without descriptors."""

import asyncio
import resource
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import psutil

from mesh_chaos._parts import kill_all, stopped
from mesh_chaos._schedule import Fault
from mesh_chaos._tested_mesh import TestedMesh
from mesh_e2e import children_of, run_command

_SPARE_DESCRIPTORS = 2


async def envoy_killed(tested: TestedMesh, fault: Fault) -> None:
    await tested.kill_envoys(fault.target)


async def envoy_stopped(tested: TestedMesh, fault: Fault) -> None:
    with stopped(*tested.agent(fault.target).envoys()):
        await asyncio.sleep(fault.lasts_s)
    await tested.until_ready(fault.target)


async def hot_restart(tested: TestedMesh, fault: Fault) -> None:
    tested.exchange_binary()
    address = tested.workload(fault.target).instance.addresses.inbound
    code, output, errors = await run_command(
        *("mesh_agent", "request", "POST", "restart", "--address", address),
        *("--debug-port", "15020"),
        environment=tested.environment,
        directory=tested.directory,
    )
    if code != 0:
        tested.problem(f"the hot restart failed: {(output + errors).strip()}")
    await tested.until_ready(fault.target)


async def agent_killed(tested: TestedMesh, fault: Fault) -> None:
    await tested.take_away(fault.target)
    await asyncio.sleep(fault.lasts_s)
    await tested.bring_back(fault.target)


async def agent_starts_alone(tested: TestedMesh, fault: Fault) -> None:
    """It is ready by what it has saved, before the control plane is back."""
    await tested.control_plane.kill()
    try:
        await tested.take_away(fault.target)
        await tested.bring_back(fault.target)
    finally:
        await tested.control_plane.start()
    await tested.until_ready("control plane")
    await tested.until_current(fault.target)


async def agent_stopped(tested: TestedMesh, fault: Fault) -> None:
    with stopped(tested.agent(fault.target).pid):
        await asyncio.sleep(fault.lasts_s)
    await tested.until_ready(fault.target)


async def agent_few_descriptors(tested: TestedMesh, fault: Fault) -> None:
    with few_descriptors(tested.agent(fault.target).pid):
        await asyncio.sleep(fault.lasts_s)
    await tested.until_ready(fault.target)


async def control_plane_killed(tested: TestedMesh, fault: Fault) -> None:  # noqa: ARG001
    await tested.control_plane.kill()
    await tested.control_plane.start()
    await tested.until_ready("control plane")


async def control_plane_away(tested: TestedMesh, fault: Fault) -> None:
    await tested.control_plane.kill()
    await asyncio.sleep(fault.lasts_s)
    await tested.control_plane.start()
    await tested.until_ready("control plane")


async def control_plane_stopped(tested: TestedMesh, fault: Fault) -> None:
    """The authority, which is a part of it, does not answer either."""
    with stopped(tested.control_plane.pid):
        await asyncio.sleep(fault.lasts_s)
    await tested.until_ready("control plane")


async def signers_killed(tested: TestedMesh, fault: Fault) -> None:
    """The processes that sign for the authority end; certificates are renewed all the same."""
    children = children_of(tested.control_plane.pid)
    kill_all(children)
    tested.notes.append(f"{fault}: {len(children)} processes")
    await tested.until_ready("control plane")
    await tested.until_current("store")


async def control_plane_few_descriptors(tested: TestedMesh, fault: Fault) -> None:
    with few_descriptors(tested.control_plane.pid):
        await asyncio.sleep(fault.lasts_s)
    await tested.until_ready("control plane")


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
