"""`mesh-agent` says that all is well wherever all is: the rows of docs/commands.md that tell of it.

Each situation is one of real processes; the exit statuses are compared with the document's.
"""

import asyncio
import os
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from mesh_e2e import (
    Agent,
    Plane,
    Workload,
    mesh_of,
    own_address,
    plane,
    run_command,
    running_agent,
    until_status,
    workload,
)

pytestmark = pytest.mark.slow

COMMANDS = Path(__file__).parents[1] / "docs" / "commands.md"
PLANE, WEB = own_address(45), own_address(47)
Status = Mapping[str, Any]

MESH = """\
    workloads:
      - {name: backend, ports: [{port: 8080}], command: ECHO, env: {PORTS: "8080"}}
      - {name: caller, proxyless: true}
      - {name: ingress, gateway: {ports: [8090]}, labels: {istio: ingressgateway}}
    configDir: config
"""
GATEWAY = """\
apiVersion: networking.istio.io/v1
kind: Gateway
metadata: {name: edge, namespace: default}
spec:
  selector: {istio: ingressgateway}
  servers: [{port: {number: 8090, name: http, protocol: HTTP}, hosts: ["*"]}]
---
apiVersion: networking.istio.io/v1
kind: VirtualService
metadata: {name: backend, namespace: default}
spec:
  hosts: ["*"]
  gateways: [edge]
  http: [{route: [{destination: {host: backend.default.svc.cluster.local}}]}]
"""


@pytest.fixture(scope="module")
def control_plane(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Plane]:
    with plane(tmp_path_factory.mktemp("plane") / "plane", PLANE) as running:
        yield running


def documented(situation: str) -> tuple[int, ...]:
    """The exit statuses of `status`, `wait`, `certs` and `doctor` in a row of the document."""
    row = next(each for each in COMMANDS.read_text().splitlines() if f"| {situation} |" in each)
    cells = [each.strip() for each in row.split("|")[2:6]]
    return tuple(int(each.split()[0]) for each in cells)


async def exits(shell: Workload, *where: str) -> tuple[int, ...]:
    """The exit statuses of the four commands."""
    calls = (("status",), ("wait", "--timeoutSeconds", "10"), ("certs",), ("doctor",))
    return tuple([(await shell.run(*words, *where))[0] for words in calls])


def is_well(status: Status) -> bool:
    return bool(
        status["ready"]
        and status["xds"]["connected"]
        and status["names"].get("table")
        and status["envoy_certificate"].get("matches")
    )


async def is_up(agent: Agent) -> Status:
    return await until_status(agent, is_well, what="an agent that is well")


@asynccontextmanager
async def waited_for(control: Plane, directory: Path) -> AsyncIterator[Workload]:
    web = workload(control, directory / "web", WEB)
    waiting = asyncio.create_task(web.run("wait", "--timeoutSeconds", "60"))
    async with running_agent(web.directory, web.environment):
        assert await waiting == (0, "", "")
        yield web


@asynccontextmanager
async def no_rules(_control: Plane, directory: Path) -> AsyncIterator[Workload]:
    with plane(directory / "plane", own_address(46)) as empty:
        (empty.directory / "config" / "orders.yaml").unlink()
        web = workload(empty, directory / "web", WEB)
        async with running_agent(web.directory, web.environment) as agent:
            await until_status(
                agent,
                lambda status: bool(status["ready"] and not status["names"]["hosts"]),
                what="an agent that is ready, without a host",
            )
            yield web


@asynccontextmanager
async def rotated(control: Plane, directory: Path) -> AsyncIterator[Workload]:
    often = {"SECRET_TTL": "60s", "SECRET_GRACE_PERIOD_RATIO": "0.95"}
    web = workload(control, directory / "web", WEB, **often)
    async with running_agent(web.directory, web.environment) as agent:
        first = (await is_up(agent))["certificate"]["serial"]
        await until_status(
            agent,
            lambda status: is_well(status) and status["certificate"]["serial"] != first,
            what="Envoy to serve the next certificate",
        )
        yield web


@asynccontextmanager
async def drained(control: Plane, directory: Path) -> AsyncIterator[Workload]:
    web = workload(control, directory / "web", WEB)
    async with running_agent(web.directory, web.environment) as agent:
        await is_up(agent)
        code, _, errors = await web.run("request", "POST", "drain", "--debug-port", "15020")
        assert (code, errors) == (0, "")
        await until_status(
            agent,
            lambda status: bool(status["envoy"]["state"] == "draining"),
            what="Envoy to drain",
        )
        yield web


@asynccontextmanager
async def plane_again(_control: Plane, directory: Path) -> AsyncIterator[Workload]:
    address = own_address(46)
    with plane(directory / "plane", address) as mortal:
        web = workload(mortal, directory / "web", WEB)
        async with running_agent(web.directory, web.environment) as agent:
            await is_up(agent)
            mortal.process.kill()
            mortal.process.wait()
            await until_status(
                agent, lambda status: not status["xds"]["connected"], what="no control plane"
            )
            (mortal.directory / "config").rename(mortal.directory / "before")
            with plane(directory / "plane", address):
                await is_up(agent)
                yield web


@asynccontextmanager
async def against(control: Plane, directory: Path) -> AsyncIterator[Workload]:
    """An agent that `mesh-discovery check` has asked for what its Envoy has."""
    web = workload(control, directory / "web", WEB)
    async with running_agent(web.directory, web.environment) as agent:
        await is_up(agent)
        code, output, errors = await run_command(
            *("mesh_discovery", "check", str(control.directory / "config")),
            *("--against", f"{WEB}:15000"),
            environment=os.environ,
            directory=directory,
        )
        assert (code, errors) == (0, ""), output
        yield web


Situation = Callable[[Plane, Path], AbstractAsyncContextManager[Workload]]
SITUATIONS: dict[str, Situation] = {
    "`wait` was called before the agent was started": waited_for,
    "a mesh without any service": no_rules,
    "a certificate was rotated": rotated,
    "a drained agent, which serves on": drained,
    "after a restart of the control plane": plane_again,
    "beside `mesh-discovery check --against` its Envoy, which exits with 0": against,
}
IN_A_LOCAL_MESH = {
    "a workload of mesh-local, asked with `--address`": "backend",
    "a gateway": "ingress",
    "a proxyless workload whose program has asked for nothing": "caller",
}


@pytest.mark.parametrize("situation", SITUATIONS)
async def test_all_is_well(situation: str, control_plane: Plane, tmp_path: Path) -> None:
    async with SITUATIONS[situation](control_plane, tmp_path) as web:
        assert await exits(web) == documented(situation) == (0, 0, 0, 0)


async def test_all_is_well_in_a_local_mesh(socket_dir: Path) -> None:
    (socket_dir / "config").mkdir()
    (socket_dir / "config" / "gateway.yaml").write_text(GATEWAY)
    plain = {name: value for name, value in os.environ.items() if name in {"PATH", "HOME"}}
    shell = Workload(directory=socket_dir, environment=plain)
    async with mesh_of(MESH, socket_dir) as mesh:
        for situation, name in IN_A_LOCAL_MESH.items():
            address = mesh.workload(name).instance.addresses.inbound
            found = await exits(shell, "--address", address)
            assert found == documented(situation) == (0, 0, 0, 0), situation
