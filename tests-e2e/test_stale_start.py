"""Control plane and authority are away, and what dies meanwhile starts from what was saved.

Envoy, then the agents, then a whole machine with nothing left but its state: requests with mutual
TLS flow each time. When the control plane is back, its configuration replaces the saved one.
"""

import asyncio
import os
import shutil
import signal
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from mesh_e2e import (
    Target,
    Unanswered,
    another_control_plane,
    children_of,
    kill_control_plane,
    mesh_of,
    send,
    until_listening,
)
from mesh_local import Child, RunningMesh, RunningWorkload
from mesh_testkit import until

pytestmark = pytest.mark.slow

MESH = """\
    mesh: {mtls: STRICT}
    workloads:
      - {name: backend, ports: [{port: 8080}], command: ECHO}
      - {name: frontend}
"""
ADDED = """\
apiVersion: networking.istio.io/v1
kind: ServiceEntry
metadata: {name: added, namespace: default}
spec:
  hosts: [added.default.svc.cluster.local]
  location: MESH_INTERNAL
  resolution: STATIC
  ports: [{number: 8080, name: http-8080, protocol: HTTP}]
  workloadSelector: {labels: {app: backend}}
"""
STATE = Path("var/lib/istio/data/mesh-agent")


@asynccontextmanager
async def again(child: Child) -> AsyncIterator[asyncio.subprocess.Process]:
    """Run what a child of the mesh was, once more."""
    spec = child.spec
    with spec.log.open("ab") as log:
        process = await asyncio.create_subprocess_exec(
            *spec.arguments,
            env=dict(spec.environment),
            cwd=spec.directory,
            stdin=asyncio.subprocess.DEVNULL,
            stdout=log,
            stderr=log,
        )
    try:
        yield process
    finally:
        with suppress(ProcessLookupError):
            process.kill()
        await process.wait()


async def killed(child: Child) -> None:
    assert child.pid is not None
    os.kill(child.pid, signal.SIGKILL)
    await child.wait_ended()


async def page(workload: RunningWorkload, path: str) -> tuple[int, str]:
    url = f"http://{workload.instance.addresses.inbound}:15020{path}"
    async with aiohttp.ClientSession() as session, session.get(url) as answer:
        return answer.status, await answer.text()


async def status(workload: RunningWorkload) -> dict[str, Any]:
    url = f"http://{workload.instance.addresses.inbound}:15020/debug/status"
    async with aiohttp.ClientSession() as session, session.get(url) as answer:
        found: dict[str, Any] = await answer.json(content_type=None)
        return found


async def until_answered(mesh: RunningMesh, host: str = "backend") -> None:
    """Wait until a request through both Envoys is answered."""
    outbound = mesh.workload("frontend").instance.addresses.outbound
    target = Target(host=outbound, port=15002, url=f"http://{host}:8080/", authority=host)
    seen: list[object] = []

    async def is_answered() -> bool:
        try:
            seen[:] = await send(target)
        except (OSError, Unanswered) as error:
            seen[:] = [repr(error)]
        return seen[0] == 200

    await until(is_answered, what=f"an answer of {host}", seen=lambda: seen)


async def until_stale(workload: RunningWorkload) -> None:
    """Wait until the workload is ready, and says that it is stale."""
    seen: list[object] = []

    async def is_stale() -> bool:
        with suppress(aiohttp.ClientError):
            seen[:] = await page(workload, "/healthz/ready")
            return seen[0] == 200 and "stale since" in str(seen[1])
        return False

    await until(is_stale, what=f"{workload.instance.name} ready and stale", seen=lambda: seen)


async def until_saved(workload: RunningWorkload) -> None:
    async def is_saved() -> bool:
        saved = (await status(workload))["xds"]["saved"]
        return len(saved["types"]) >= 4 and not saved["waiting_bytes"]

    await until(is_saved, what=f"{workload.instance.name}'s configuration on the disk")


def remove_what_was_killed(mesh: RunningMesh) -> None:
    """Remove the sockets that killed processes have left."""
    for workload in mesh.workloads:
        shutil.rmtree(workload.agent.spec.directory / "etc/istio/proxy", ignore_errors=True)
        shutil.rmtree(workload.agent.spec.directory / "var/run/secrets", ignore_errors=True)


def state_of(child: Child) -> Path:
    return child.spec.directory / STATE


async def test_everything_starts_again_while_control_plane_and_authority_are_away(
    tmp_path: Path,
) -> None:
    async with mesh_of(MESH, tmp_path) as mesh, AsyncExitStack() as stack:
        stack.callback(remove_what_was_killed, mesh)
        workloads = [mesh.workload("frontend"), mesh.workload("backend")]
        frontend, backend = workloads
        await until_answered(mesh)
        for workload in workloads:
            await until_saved(workload)
        serials = [(await status(each))["certificate"]["serial"] for each in workloads]
        kill_control_plane(mesh)
        await mesh.control_plane.wait_ended()

        # Envoy alone.
        assert backend.agent.pid is not None
        (envoy,) = children_of(backend.agent.pid)
        os.kill(envoy, signal.SIGKILL)
        await until_stale(backend)
        await until_answered(mesh)

        # The agents.
        running = []
        for workload in workloads:
            await killed(workload.agent)
            running.append(await stack.enter_async_context(again(workload.agent)))
        for workload in workloads:
            await until_stale(workload)
        await until_answered(mesh)

        # The machine: nothing is left but what is mounted, and the state.
        assert backend.app is not None
        await killed(backend.app)
        for process in running:
            process.kill()
            await process.wait()
        for workload in workloads:
            shutil.rmtree(workload.agent.spec.directory / "etc/istio/proxy")
            shutil.rmtree(
                workload.agent.spec.directory / "var/run/secrets/workload-spiffe-uds",
                ignore_errors=True,
            )
        await stack.enter_async_context(again(backend.app))
        for workload in workloads:
            await stack.enter_async_context(again(workload.agent))
        for workload in workloads:
            await until_stale(workload)
        await until_answered(mesh)
        found = [await status(each) for each in workloads]
        assert [each["certificate"]["serial"] for each in found] == serials
        assert all(each["certificate"]["taken_up"] for each in found)

        # The control plane is back, with another configuration.
        (mesh.state.config / "added.yaml").write_text(ADDED)
        async with another_control_plane(mesh):
            await until_listening(mesh)
            await until_answered(mesh, "added")

            async def is_current() -> bool:
                statuses = [(await status(each))["xds"] for each in workloads]
                return all(each["connected"] and each["stale_since"] is None for each in statuses)

            await until(is_current, what="configuration of the control plane's own")
            assert "stale" not in (await page(frontend, "/healthz/ready"))[1]


@pytest.mark.parametrize("damage", ["cut short", "a flipped bit"])
async def test_a_damaged_file_is_refused_and_said(tmp_path: Path, damage: str) -> None:
    async with mesh_of(MESH, tmp_path) as mesh, AsyncExitStack() as stack:
        stack.callback(remove_what_was_killed, mesh)
        backend = mesh.workload("backend")
        await until_saved(backend)
        kill_control_plane(mesh)
        await mesh.control_plane.wait_ended()
        await killed(backend.agent)
        (file,) = state_of(backend.agent).glob("configuration/*Listener-*")
        content = bytearray(file.read_bytes())
        if damage == "cut short":
            del content[-10:]
        else:
            content[len(content) // 2] ^= 1
        file.write_bytes(bytes(content))
        await stack.enter_async_context(again(backend.agent))
        seen: list[object] = []

        async def is_said() -> bool:
            with suppress(aiohttp.ClientError):
                seen[:] = await page(backend, "/healthz/ready")
            return "saved configuration is not used" in str(seen) and file.name in str(seen)

        await until(is_said, what="the reason", seen=lambda: seen)
        assert seen[0] == 503
