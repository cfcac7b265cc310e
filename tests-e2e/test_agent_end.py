"""How an agent ends: by SIGTERM in order, by SIGKILL at once, and never with anything left."""

import asyncio
import os
import signal
from collections.abc import Callable
from pathlib import Path

import pytest

from mesh_e2e import (
    Target,
    alive,
    children_of,
    command_line,
    constant_load,
    mesh_of,
    requests_open,
    send,
    shared_memory_of,
)
from mesh_local import OnExit, RunningMesh, RunningWorkload
from mesh_testkit import until

Record = Callable[[str, object], None]

MESH = """\
    mesh: {drain: 20s}
    workloads:
      - {name: backend, ports: [{port: 8080}], command: ECHO}
      - {name: frontend}
"""
HELD = 20


def through_frontend(mesh: RunningMesh, path: str) -> Target:
    outbound = mesh.workload("frontend").instance.addresses.outbound
    return Target(host=outbound, port=15002, url=f"http://backend:8080{path}", authority="backend")


def processes_of(workload: RunningWorkload) -> tuple[int, tuple[int, ...]]:
    """The agent and its Envoy, which is its one child."""
    agent = workload.agent.pid
    assert agent is not None
    children = children_of(agent)
    assert [" -c " in command_line(pid) for pid in children] == [True], "one Envoy"
    return agent, children


def sockets_below(directory: Path) -> list[Path]:
    return [path for path in directory.rglob("*") if path.is_socket()]


async def until_under_way(workload: RunningWorkload, cluster: str) -> None:
    """Wait until a workload's Envoy has all held requests open to a cluster."""

    async def all_are_open() -> bool:
        return await requests_open(workload, cluster) >= HELD

    await until(all_are_open, what=f"{HELD} requests to {cluster}")


async def stop_under_held_requests(
    mesh: RunningMesh, workload: RunningWorkload, cluster: str, record: Record
) -> float:
    """Stop an agent; the requests that its Envoy has open then are answered when it drains.

    cluster: to which it has them. Returns the loop's time of the stop.
    """
    loop = asyncio.get_running_loop()
    agent, envoys = processes_of(workload)
    shared = {path for pid in envoys for path in shared_memory_of(pid)}
    log = workload.agent.spec.log
    async with asyncio.TaskGroup() as group:
        held = through_frontend(mesh, "/held")
        requests = [group.create_task(send(held)) for _ in range(HELD)]
        await until_under_way(workload, cluster)
        stopped_at = loop.time()
        os.kill(agent, signal.SIGTERM)
        await until(lambda: "envoy is draining" in log.read_text(), what="word of the drain")
        assert not any(task.done() for task in requests)
        app = mesh.workload("backend").instance.addresses.app
        await send(Target(host=app, port=8080, url="/release"))
    assert [task.result()[0] for task in requests] == [200] * HELD
    assert await workload.agent.wait_ended() == "exit code 0"
    record("SIGTERM -> agent and Envoy gone", f"{loop.time() - stopped_at:.2f} s")
    assert not any(alive(pid) for pid in envoys)
    assert not any(path.exists() for path in shared)
    assert sockets_below(workload.agent.spec.directory) == []
    return stopped_at


@pytest.mark.slow
async def test_sigterm_lets_requests_under_way_finish(tmp_path: Path, record: Record) -> None:
    async with mesh_of(MESH, tmp_path) as mesh:
        async with constant_load(through_frontend(mesh, "/"), rate_per_s=100) as load:
            await load.until_answered(50)
            backend = mesh.workload("backend")
            stopped_at = await stop_under_held_requests(mesh, backend, "inbound|8080||", record)
        cut_off = [each for each in load.report.failures if each.sent_at < stopped_at]
        record("load", load.report.summary())
        assert cut_off == []


@pytest.mark.slow
async def test_sigterm_to_the_caller_s_agent_lets_requests_under_way_finish(
    tmp_path: Path, record: Record
) -> None:
    async with mesh_of(MESH, tmp_path) as mesh:
        frontend = mesh.workload("frontend")
        await stop_under_held_requests(mesh, frontend, "outbound|8080||backend", record)


@pytest.mark.slow
async def test_envoy_does_not_outlive_a_killed_agent_and_both_come_back(
    tmp_path: Path, record: Record
) -> None:
    loop = asyncio.get_running_loop()
    async with mesh_of(MESH, tmp_path, on_exit=OnExit.RESTART) as mesh:
        backend = mesh.workload("backend")
        agent, envoys = processes_of(backend)
        async with constant_load(through_frontend(mesh, "/"), rate_per_s=100) as load:
            await load.until_answered(50)
            killed_at = loop.time()
            os.kill(agent, signal.SIGKILL)
            await until(lambda: not any(map(alive, envoys)), what="Envoy's end")
            record("SIGKILL -> Envoy gone", f"{(loop.time() - killed_at) * 1000:.0f} ms")
            await until(lambda: backend.agent.restarts == 1, what="the agent's end to be noticed")
            # Those beyond the most that may be on their way: answered by the new agent's Envoy.
            await load.until_answered(50)
            record("SIGKILL -> served again", f"{loop.time() - killed_at:.2f} s")
        assert backend.agent.last_exit == "killed by SIGKILL"
        assert backend.agent.pid != agent


@pytest.mark.slow
async def test_a_killed_envoy_is_replaced_by_its_agent(tmp_path: Path, record: Record) -> None:
    loop = asyncio.get_running_loop()
    async with mesh_of(MESH, tmp_path) as mesh:
        backend = mesh.workload("backend")
        agent, (envoy,) = processes_of(backend)
        async with constant_load(through_frontend(mesh, "/"), rate_per_s=100) as load:
            await load.until_answered(50)
            killed_at = loop.time()
            os.kill(envoy, signal.SIGKILL)
            await until(
                lambda: envoy not in (now := children_of(agent)) and len(now) == 1,
                what="another Envoy",
                seen=lambda: children_of(agent),
            )
            await load.until_answered(100)
        last_failure = max((each.failed_at for each in load.report.failures), default=killed_at)
        record("Envoy killed -> last failed request", f"{last_failure - killed_at:.2f} s")
        record("load", load.report.summary())
        assert backend.agent.pid == agent
        assert processes_of(backend)[1] != (envoy,)


@pytest.mark.slow
async def test_one_of_two_replicas_stops_and_no_request_is_lost(
    tmp_path: Path, record: Record
) -> None:
    text = MESH.replace("name: backend,", "name: backend, replicas: 2,")
    async with mesh_of(text, tmp_path) as mesh:
        leaving = mesh.workload("backend-1").agent
        assert leaving.pid is not None
        async with constant_load(through_frontend(mesh, "/"), rate_per_s=200) as load:
            await load.until_served_by("backend-1")
            await load.until_served_by("backend-2")
            os.kill(leaving.pid, signal.SIGTERM)
            assert await leaving.wait_ended() == "exit code 0"
        async with constant_load(through_frontend(mesh, "/"), rate_per_s=200) as afterwards:
            await afterwards.until_answered(200)
        record("load", load.report.summary())
        assert load.report.failures == afterwards.report.failures == []
        assert set(afterwards.report.bodies) == {"backend-2"}
