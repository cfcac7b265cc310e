"""Everything at once: short lives, new roots, a wrong file, kills, idle and stalled peers.

    python tests-e2e/soak_everything.py [--lifetime 40] [--seconds 600] [--rate 50]

Two agents under constant load. Prints what happened, and memory and descriptors of each process;
exits 1 if a request failed that was not under way on an Envoy when it was killed.
"""

import asyncio
import os
import signal
import sys
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent / "support"))

import psutil

from mesh_e2e import (
    TOKEN,
    Failure,
    LoadReport,
    Target,
    alive,
    another_control_plane,
    children_of,
    constant_load,
    idle_connections,
    kill_control_plane,
    mesh_of,
    run_command,
    soaked,
    stalled_streams,
    until_listening,
)
from mesh_local import RunningMesh
from mesh_testkit import until

MESH = """\
    mesh: {{certificateLifetime: {lifetime}s, drain: 1s}}
    workloads:
      - {{name: backend, ports: [{{port: 8080}}], command: ECHO}}
      - {{name: frontend}}
"""
WRONG = """\
apiVersion: networking.istio.io/v1
kind: ServiceEntry
metadata: {name: wrong, namespace: default}
spec: {hosts: [wrong.example], ports: [{number: 80, name: http, protocl: HTTP}]}
"""
WRONG_FILE = "wrong.yaml"
IDLE, STALLED = 500, 200
SOURCE = "127.66.6.6"
WRONG_FILE_S, NEW_ROOT_S, KILL_ENVOY_S, KILL_CONTROL_PLANE_S, AWAY_S = 7, 110, 61, 83, 5
CUT_AFTER_S = 1.0
"""An Envoy's sockets are closed within this time of its end, and its callers learn it."""


@dataclass(slots=True, kw_only=True)
class Process:
    """What one process took, look by look."""

    memory_mb: list[float] = field(default_factory=list)
    files: list[int] = field(default_factory=list)

    def line(self, name: str) -> str:
        def three(values: list[float] | list[int]) -> str:
            return f"{values[0]:.0f} first, {max(values):.0f} most, {values[-1]:.0f} last"

        return f"  {name}: PSS {three(self.memory_mb)} MB; descriptors {three(self.files)}"


@dataclass(slots=True, kw_only=True)
class Outcome:
    """What became of it all."""

    load: LoadReport
    envoys_killed: list[tuple[float, float]] = field(default_factory=list)
    """When each kill began, and when it was done."""
    control_planes_killed: int = 0
    roots: int = 0
    wrong_files: int = 0
    serials: set[str] = field(default_factory=set)
    processes: dict[str, Process] = field(default_factory=dict)

    def unexcused(self) -> list[Failure]:
        return [
            each
            for each in self.load.failures
            if not any(
                each.sent_at <= done and begun <= each.failed_at <= done + CUT_AFTER_S
                for begun, done in self.envoys_killed
            )
        ]


async def soak(directory: Path, *, lifetime_s: int, seconds: float, rate: float) -> Outcome:
    """Run all of it for that long."""
    async with (
        mesh_of(MESH.format(lifetime=lifetime_s), directory) as mesh,
        AsyncExitStack() as stack,
    ):
        outbound = mesh.workload("frontend").instance.addresses.outbound
        target = Target(host=outbound, port=15002, url="http://backend:8080/", authority="backend")
        load = await stack.enter_async_context(constant_load(target, rate_per_s=rate))
        await load.until_answered(20)
        outcome = Outcome(load=load.report)
        control_plane = mesh.plan.block.control_plane
        stalled = stalled_streams(
            (control_plane, 15012),
            STALLED,
            node_prefix="stalled",
            token=mesh.state.workload("frontend") / TOKEN,
        )
        idle = idle_connections(ports(mesh), IDLE, source=SOURCE)
        planes = await stack.enter_async_context(control_planes(mesh, outcome))
        # Not there any more when the load ends: what is shown is that it goes on beside them.
        async with stalled, idle:
            async with asyncio.TaskGroup() as group:
                for every_s, what in (
                    (WRONG_FILE_S, wrong_file(mesh, planes, outcome)),
                    (NEW_ROOT_S, new_root(mesh, outcome)),
                    (KILL_ENVOY_S, killed_envoy(mesh, outcome)),
                    (KILL_CONTROL_PLANE_S, planes.replaced),
                    (10, looked_at(mesh, planes, outcome)),
                ):
                    group.create_task(repeated(what, every_s, until_s=seconds))
        return outcome


def ports(mesh: RunningMesh) -> list[tuple[str, int]]:
    """Every port of the control plane, the agents and their Envoys that others may connect to."""
    plane = mesh.plan.block.control_plane
    own = [each.instance.addresses.inbound for each in mesh.workloads]
    return [
        *((plane, port) for port in (mesh.plan.http_port, 15012, 15014)),
        *((host, port) for host in own for port in (15020, 15021, 15090)),
    ]


Step = Callable[[], Awaitable[None]]


async def repeated(step: Step, every_s: float, *, until_s: float) -> None:
    loop = asyncio.get_running_loop()
    begun = loop.time()
    while loop.time() + every_s < begun + until_s:
        await asyncio.sleep(every_s)
        await step()
    await asyncio.sleep(max(0.0, begun + until_s - loop.time()))


def wrong_file(mesh: RunningMesh, planes: "ControlPlanes", outcome: Outcome) -> Step:
    file = mesh.state.config / WRONG_FILE

    async def step() -> None:
        if file.exists():
            file.unlink()
        elif not planes.starting:
            file.write_text(WRONG)
            outcome.wrong_files += 1

    return step


def new_root(mesh: RunningMesh, outcome: Outcome) -> Step:
    async def step() -> None:
        code, output, errors = await run_command(
            *("mesh_discovery", "replace-root", "--spread=25s", "--retirement=50s"),
            f"--ca-dir={mesh.state.ca}",
            environment=os.environ,
            directory=mesh.state.ca,
        )
        assert code == 0, (output, errors)
        outcome.roots += 1

    return step


def killed_envoy(mesh: RunningMesh, outcome: Outcome) -> Step:
    async def step() -> None:
        # The two in turn, so that neither uses its budget of crashes up.
        workload = mesh.workloads[len(outcome.envoys_killed) % len(mesh.workloads)]
        assert workload.agent.pid is not None
        loop = asyncio.get_running_loop()
        envoys = children_of(workload.agent.pid)
        begun = loop.time()
        for pid in envoys:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        # The kernel takes some milliseconds to end it; until then it is connected to.
        await until(lambda: not any(map(alive, envoys)), what="the kernel to end the Envoy")
        outcome.envoys_killed.append((begun, loop.time()))

    return step


class ControlPlanes:
    """The control plane there is, which is killed and comes back."""

    def __init__(self, mesh: RunningMesh, outcome: Outcome, stack: AsyncExitStack) -> None:
        self._mesh = mesh
        self._outcome = outcome
        self._stack = stack
        self.pid = mesh.control_plane.pid
        self.starting = False

    async def replaced(self) -> None:
        kill_control_plane(self._mesh, self.pid)
        self.pid = None
        self._outcome.control_planes_killed += 1
        await asyncio.sleep(AWAY_S)
        # A start demands that all files are right; what comes later keeps the last good content.
        self.starting = True
        (self._mesh.state.config / WRONG_FILE).unlink(missing_ok=True)
        process = await self._stack.enter_async_context(another_control_plane(self._mesh))
        await until_listening(self._mesh)
        self.starting = False
        self.pid = process.pid


@asynccontextmanager
async def control_planes(mesh: RunningMesh, outcome: Outcome) -> AsyncIterator[ControlPlanes]:
    async with AsyncExitStack() as stack:
        yield ControlPlanes(mesh, outcome, stack)


def looked_at(mesh: RunningMesh, planes: ControlPlanes, outcome: Outcome) -> Step:
    async def step() -> None:
        processes = {each.instance.name: each.agent.pid for each in mesh.workloads}
        for name, pid in {**processes, "control plane": planes.pid}.items():
            with suppress(psutil.Error):
                seen = psutil.Process(pid)
                taken = outcome.processes.setdefault(name, Process())
                taken.memory_mb.append(seen.memory_full_info().pss / 1e6)
                taken.files.append(seen.num_fds())
        for workload in mesh.workloads:
            if workload.status is not None and workload.status.serial is not None:
                outcome.serials.add(workload.status.serial)

    return step


def main() -> int:
    outcome, _ = soaked(soak, __doc__, lifetime_s=40, seconds=600, rate=50)
    unexcused = outcome.unexcused()
    excused = len(outcome.load.failures) - len(unexcused)
    happened = {
        "Envoys killed": len(outcome.envoys_killed),
        "control planes killed": outcome.control_planes_killed,
        "new roots": outcome.roots,
        "wrong files": outcome.wrong_files,
        "certificates seen": len(outcome.serials),
    }
    lines = [
        outcome.load.summary(),
        f"in flight on a killed Envoy: {excused}; failed otherwise: {len(unexcused)}",
        ", ".join(f"{what}: {count}" for what, count in happened.items()),
        *(process.line(name) for name, process in outcome.processes.items()),
        *(f"failure: {failure}" for failure in unexcused[:20]),
    ]
    sys.stdout.write("\n".join(lines) + "\n")
    return 1 if unexcused else 0


if __name__ == "__main__":
    sys.exit(main())
