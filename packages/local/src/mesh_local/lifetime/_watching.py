"""Keeps what is known of a replica up to date, by asking its agent and its program's ports."""

import asyncio
from datetime import UTC, datetime
from typing import Protocol

from mesh_local._running_mesh import RunningMesh, RunningWorkload
from mesh_local.capture._connecting import open_connection
from mesh_local.config._plan import Instance
from mesh_local.observation._agent_status import fetch_status
from mesh_local.processes._children import ChildState
from mesh_local.processes._start_order import AgentStart

_POLL_S = 0.05
_WATCH_S = 0.5
_LOOKS_A_SECOND = 40
"""At all workloads together: each look costs the agent and this program some milliseconds."""


class Watched(Protocol):
    """A replica, and the newest start of its agent."""

    workload: RunningWorkload
    agent_start: AgentStart


async def watch_replica(mesh: RunningMesh, replica: Watched) -> None:
    """Keep a replica's status up to date; its agent is ready once it has said so. Never returns."""
    workload, begun = replica.workload, None
    while True:
        start = replica.agent_start
        await start.may_start.wait()
        if start is not begun:
            begun, workload.begun_at, workload.was_ready = start, datetime.now(UTC), False
        instance = workload.instance
        status = await fetch_status(instance.addresses.agent)
        accepts = start.ready.is_set() and await _accepts(instance)
        if start is replica.agent_start:  # else this was the agent before
            workload.status = status
            workload.app_answers = accepts
            if status is not None and status.ready:
                start.ready.set()
            mesh.workload_updated()
        ready = workload.not_ready is None
        workload.was_ready = workload.was_ready or ready
        started = [each for each in mesh.workloads if each.agent.state is not ChildState.WAITING]
        alike = sum((each.not_ready is None) == ready for each in started)
        await asyncio.sleep(pause_s(ready=ready, alike=alike))


def pause_s(*, ready: bool, alike: int) -> float:
    """Return after how long a workload is looked at again.

    ready: whether it is ready, which then only has to be kept true. alike: how many are so.
    """
    return max(_WATCH_S if ready else _POLL_S, alike / _LOOKS_A_SECOND)


async def _accepts(instance: Instance) -> bool:
    if not instance.workload.command:
        return True  # the user starts it
    for port in instance.workload.ports:
        try:
            async with asyncio.timeout(1.0):
                _, writer = await open_connection(instance.addresses.program, port.port)
        except (OSError, TimeoutError):
            return False
        writer.close()
    return True
