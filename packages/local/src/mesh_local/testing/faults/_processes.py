"""Kills processes of a mesh, and waits until they are back."""

import asyncio
import os
import signal
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import TypeVar

from mesh_local._errors import FaultError, NoAnswer, NotReady
from mesh_local._parts import Kind, Part, parts
from mesh_local._running_mesh import RunningMesh, RunningWorkload
from mesh_local.observation._agent_status import fetch_status
from mesh_local.observation._http import fetch
from mesh_local.processes._children import ChildState
from mesh_local.testing.faults._configuration import runs

BACK_WITHIN_S = 60.0
_POLL_S = 0.03
_CONNECT_S = 1.0

T = TypeVar("T")


@asynccontextmanager
async def killed(mesh: RunningMesh, name: str) -> AsyncIterator[None]:
    """Kill processes, which their supervisors start again; at the end, wait for that."""
    found = parts(mesh, name)
    before = [await _kill(part) for part in found]
    yield
    for part, pid in zip(found, before, strict=True):
        await _until_back(mesh, part, pid)


@asynccontextmanager
async def stopped(mesh: RunningMesh, name: str) -> AsyncIterator[None]:
    """Kill processes, and let them be started again at the end; returns when they are back."""
    found = parts(mesh, name)
    if any(part.kind is Kind.ENVOY for part in found):
        agent = name.removesuffix(Kind.ENVOY) + Kind.AGENT
        raise FaultError(
            f"an agent starts its Envoy again at once: stop {agent}, with which its Envoy ends"
        )
    before = [part.child.pid or 0 for part in found]
    await asyncio.gather(*(part.child.kill(hold=True) for part in found))
    try:
        yield
    finally:
        for part in found:
            part.child.let_start()
    for part, pid in zip(found, before, strict=True):
        await _until_back(mesh, part, pid)


async def _kill(part: Part) -> int:
    """Kill a process, and return the pid that it had, or of an agent the pid of its Envoy."""
    if part.kind is Kind.ENVOY and part.workload is not None:
        return await _kill_envoy(part.workload)
    child = part.child
    if child.state is not ChildState.RUNNING or child.pid is None:
        raise FaultError(f"{child.spec.name} does not run ({child.last_exit or child.state})")
    pid = child.pid
    await child.kill()
    return pid


async def _kill_envoy(workload: RunningWorkload) -> int:
    status = await fetch_status(workload.instance.addresses.agent)
    if status is None or status.envoy_pid is None:
        raise FaultError(f"the Envoy of {workload.instance.name} does not run")
    os.kill(status.envoy_pid, signal.SIGKILL)
    async with asyncio.timeout(BACK_WITHIN_S):
        while _is_alive(status.envoy_pid):  # noqa: ASYNC110 - it is no child of this process
            await asyncio.sleep(_POLL_S)
    return status.envoy_pid


def _is_alive(pid: int) -> bool:
    with suppress(OSError):
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    return False


async def _until_back(mesh: RunningMesh, part: Part, pid: int) -> None:
    """Wait until a process that had this pid has been started again, and works."""
    try:
        async with asyncio.timeout(BACK_WITHIN_S):
            while not await _is_back(mesh, part, pid):  # noqa: ASYNC110 - others are asked
                await asyncio.sleep(_POLL_S)
    except TimeoutError:
        raise NotReady(
            f"{part.child.spec.name} is not back after {BACK_WITHIN_S:g} s", log=part.child.spec.log
        ) from None


async def _is_back(mesh: RunningMesh, part: Part, pid: int) -> bool:
    if part.workload is None:
        return part.child.pid != pid and await _control_plane_is_back(mesh)
    if part.kind is Kind.ENVOY:
        return await _has_envoy(part.workload, but=pid)
    if part.child.pid == pid or part.child.state is not ChildState.RUNNING:
        return False
    if part.kind is Kind.PROGRAM:
        return await _all(_accepts, _addresses(part.workload))
    return await _has_envoy(part.workload, but=None)


async def _has_envoy(workload: RunningWorkload, *, but: int | None) -> bool:
    """Return whether a workload is ready, with another Envoy than the one of this pid."""
    status = await fetch_status(workload.instance.addresses.agent)
    if status is None or not status.ready:
        return False
    return workload.instance.workload.proxyless or status.envoy_pid not in (but, None)


async def _control_plane_is_back(mesh: RunningMesh) -> bool:
    """Return whether it is ready, and all agents that run are connected to it."""
    plan = mesh.plan
    try:
        answer = await fetch(plan.block.control_plane, plan.http_port, target="/ready")
    except NoAnswer:
        return False
    running = [each for each in mesh.workloads if runs(each)]
    return answer.status == 200 and await _all(_is_connected, running)


async def _is_connected(workload: RunningWorkload) -> bool:
    status = await fetch_status(workload.instance.addresses.agent)
    return status is not None and status.xds_connected


def _addresses(workload: RunningWorkload) -> list[tuple[str, int]]:
    instance = workload.instance
    return [(instance.addresses.app, each.port) for each in instance.workload.ports]


async def _accepts(address: tuple[str, int]) -> bool:
    try:
        async with asyncio.timeout(_CONNECT_S):
            _, writer = await asyncio.open_connection(*address)
    except (OSError, TimeoutError):
        return False
    writer.close()
    return True


async def _all(holds: Callable[[T], Awaitable[bool]], each: list[T]) -> bool:
    return all([await holds(one) for one in each])
