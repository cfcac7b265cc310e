"""Names: saved as a ServiceEntry, answered by each workload's agent, also when it runs alone."""

import asyncio
import json
import os
import shutil
import signal
import sys
import time
from collections.abc import AsyncIterator, Callable
from pathlib import Path

import dns.asyncquery
import dns.message
import pytest
import pytest_asyncio

from mesh_e2e import Target, children_of, command_line, kill_control_plane, mesh_of, send
from mesh_local import RunningMesh
from mesh_testkit import PATIENCE_S, until

Record = Callable[[str, object], None]

MESH = """\
    workloads:
      - name: backend
        ports: [{port: 8080}, {port: 9000, protocol: tcp}]
        command: ECHO
        env: {PORTS: 8080 9000}
      - {name: frontend, namespace: shop}
    configDir: config
"""
FRONTEND = "spiffe://cluster.local/ns/shop/sa/frontend"
NEW_SERVICE = """\
apiVersion: networking.istio.io/v1
kind: ServiceEntry
metadata: {name: late, namespace: default}
spec:
  hosts: [late.example]
  location: MESH_INTERNAL
  resolution: STATIC
  ports: [{number: 8080, name: http, protocol: HTTP}]
  endpoints: [{address: 127.0.0.1}]
"""


@pytest_asyncio.fixture
async def mesh(tmp_path: Path) -> AsyncIterator[RunningMesh]:
    (tmp_path / "config").mkdir()
    async with mesh_of(MESH, tmp_path) as running:
        yield running


async def addresses_of(mesh: RunningMesh, name: str, *, asked_by: str = "frontend") -> set[str]:
    """Ask a workload's agent as dig does; no addresses where there is no such name."""
    server = mesh.workload(asked_by).instance.addresses.inbound
    query = dns.message.make_query(name, "A")
    answer = await dns.asyncquery.udp(query, server, port=15053, timeout=PATIENCE_S)
    return {item.to_text() for each in answer.answer for item in each}


def outbound(mesh: RunningMesh, name: str = "frontend") -> str:
    return mesh.workload(name).instance.addresses.outbound


def caller_in(body: bytes) -> str:
    header: str = json.loads(body)["headers"]["x-forwarded-client-cert"]
    last = header.rpartition(",")[2]
    return dict(part.split("=", 1) for part in last.split(";"))["URI"]


async def test_a_name_leads_each_workload_to_its_own_envoy(mesh: RunningMesh) -> None:
    for name in ("backend.default", "backend.default.svc.cluster.local", "BACKEND.default.svc"):
        assert await addresses_of(mesh, name) == {outbound(mesh)}
    assert await addresses_of(mesh, "backend", asked_by="backend") == {outbound(mesh, "backend")}

    (address,) = await addresses_of(mesh, "backend.default")
    status, body = await send(Target(host=address, port=8080, authority="backend.default:8080"))
    assert (status, caller_in(body)) == (200, FRONTEND)
    status, _ = await send(Target(host=address, port=9000))
    assert status == 200


async def test_a_saved_service_is_answered_at_once(
    mesh: RunningMesh, tmp_path: Path, record: Record
) -> None:
    assert await addresses_of(mesh, "late.example") == set()
    saved = time.monotonic()
    (tmp_path / "config" / "late.yaml").write_text(NEW_SERVICE)

    async def is_there() -> bool:
        return await addresses_of(mesh, "late.example") == {outbound(mesh)}

    await until(is_there, what="the saved service's name")
    record("ServiceEntry saved, name answered after", f"{time.monotonic() - saved:.3f} s")


async def test_names_are_answered_without_control_plane_and_envoy(
    mesh: RunningMesh,
) -> None:
    kill_control_plane(mesh)
    frontend = mesh.workload("frontend")
    await until(
        lambda: frontend.status is not None and not frontend.status.xds_connected,
        what="the agent without its control plane",
    )
    assert await addresses_of(mesh, "backend.default") == {outbound(mesh)}

    agent = frontend.agent.pid
    assert agent is not None
    (envoy,) = [pid for pid in children_of(agent) if " -c " in command_line(pid)]
    os.kill(envoy, signal.SIGKILL)
    for _ in range(20):
        assert await addresses_of(mesh, "backend.default") == {outbound(mesh)}


@pytest.mark.slow
@pytest.mark.skipif(os.geteuid() != 0, reason="port 53, and a resolv.conf of its own, need root")
@pytest.mark.skipif(shutil.which("unshare") is None, reason="there is no unshare")
async def test_a_program_that_knows_nothing_of_the_mesh_calls_by_name(tmp_path: Path) -> None:
    """Over the C library's resolver, with nothing but a resolv.conf."""
    (tmp_path / "config").mkdir()
    async with mesh_of(f"    mesh: {{dnsPort: 53}}\n{MESH}", tmp_path) as mesh:
        file = tmp_path / "resolv.conf"
        file.write_text(f"nameserver {mesh.workload('frontend').instance.addresses.inbound}\n")
        program = (
            "import urllib.request as r; "
            "print(r.urlopen('http://backend.default:8080/', timeout=60).read().decode())"
        )
        process = await asyncio.create_subprocess_exec(
            "unshare",
            "-m",
            "sh",
            "-c",
            f'mount --bind {file} /etc/resolv.conf && exec {sys.executable} -c "$0"',
            program,
            env={"PATH": os.environ["PATH"]},
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
        )
        output, errors = await process.communicate()

    assert process.returncode == 0, errors.decode()
    assert caller_in(output) == FRONTEND
