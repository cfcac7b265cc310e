"""How an agent ends: by SIGTERM in order, by SIGKILL at once, and never with anything left."""

import asyncio
import os
import signal
from collections.abc import Callable
from pathlib import Path

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
    until,
)
from mesh_local import OnExit, RunningMesh, RunningWorkload

Record = Callable[[str, object], None]

MESH = """\
    workloads:
      - {name: backend, ports: [{port: 8080}], command: ECHO}
      - {name: frontend}
"""
SLOW = 20
SLOW_S = 1.5


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


async def until_under_way(workload: RunningWorkload, cluster: str, count: int) -> None:
    """Wait until a workload's Envoy has this many requests open to a cluster."""
    async with asyncio.timeout(10):
        while await requests_open(workload, cluster) < count:  # noqa: ASYNC110
            await asyncio.sleep(0.01)


async def test_sigterm_lets_requests_under_way_finish(tmp_path: Path, record: Record) -> None:
    loop = asyncio.get_running_loop()
    async with mesh_of(MESH, tmp_path) as mesh:
        backend = mesh.workload("backend")
        agent, envoys = processes_of(backend)
        shared = {path for pid in envoys for path in shared_memory_of(pid)}
        slow = through_frontend(mesh, f"/slow?seconds={SLOW_S}")
        async with constant_load(through_frontend(mesh, "/"), rate_per_s=100) as load:
            await load.until_answered(50)
            async with asyncio.TaskGroup() as group:
                requests = [group.create_task(send(slow)) for _ in range(SLOW)]
                await until_under_way(backend, "inbound|8080||", SLOW)
                stopped_at = loop.time()
                os.kill(agent, signal.SIGTERM)
            assert [task.result()[0] for task in requests] == [200] * SLOW
            assert await backend.agent.wait_ended() == "exit code 0"
            record("SIGTERM -> agent and Envoy gone", f"{loop.time() - stopped_at:.2f} s")
        cut_off = [each for each in load.report.failures if each.sent_at < stopped_at]
        record("load", load.report.summary())
        assert cut_off == []
        assert not any(alive(pid) for pid in envoys)
        assert not any(path.exists() for path in shared)
        assert sockets_below(backend.agent.spec.directory) == []


async def test_sigterm_to_the_caller_s_agent_lets_requests_under_way_finish(
    tmp_path: Path, record: Record
) -> None:
    loop = asyncio.get_running_loop()
    async with mesh_of(MESH, tmp_path) as mesh:
        frontend = mesh.workload("frontend")
        agent, envoys = processes_of(frontend)
        shared = {path for pid in envoys for path in shared_memory_of(pid)}
        slow = through_frontend(mesh, f"/slow?seconds={SLOW_S}")
        async with asyncio.TaskGroup() as group:
            requests = [group.create_task(send(slow)) for _ in range(SLOW)]
            await until_under_way(frontend, "outbound|8080||backend", SLOW)
            stopped_at = loop.time()
            os.kill(agent, signal.SIGTERM)
        assert [task.result()[0] for task in requests] == [200] * SLOW
        assert await frontend.agent.wait_ended() == "exit code 0"
        record("SIGTERM -> agent and Envoy gone", f"{loop.time() - stopped_at:.2f} s")
        assert not any(alive(pid) for pid in envoys)
        assert not any(path.exists() for path in shared)
        assert sockets_below(frontend.agent.spec.directory) == []


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
            seen = len(load.report.failures)
            await until(lambda: len(load.report.failures) > seen, what="failures without it")
            await load.until_answered(50)  # the new agent took the old one's sockets over
            record("SIGKILL -> served again", f"{loop.time() - killed_at:.2f} s")
        assert backend.agent.last_exit == "killed by SIGKILL"
        assert backend.agent.pid != agent


async def test_a_killed_envoy_is_replaced_by_its_agent(tmp_path: Path, record: Record) -> None:
    loop = asyncio.get_running_loop()
    async with mesh_of(MESH, tmp_path) as mesh:
        backend = mesh.workload("backend")
        agent, (envoy,) = processes_of(backend)
        async with constant_load(through_frontend(mesh, "/"), rate_per_s=100) as load:
            await load.until_answered(50)
            killed_at = loop.time()
            os.kill(envoy, signal.SIGKILL)
            await until(lambda: not alive(envoy), what="Envoy's end")
            await until(lambda: len(children_of(agent)) == 1, what="a new Envoy")
            await load.until_answered(100)
        last_failure = max((each.failed_at for each in load.report.failures), default=killed_at)
        record("Envoy killed -> last failed request", f"{last_failure - killed_at:.2f} s")
        record("load", load.report.summary())
        assert backend.agent.pid == agent
        assert processes_of(backend)[1] != (envoy,)


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
            before = load.report.bodies["backend-1"]
            await load.until_answered(200)
        record("load", load.report.summary())
        assert load.report.bodies["backend-1"] == before
        assert load.report.failures == []
