import asyncio
from collections.abc import AsyncIterator, Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
import pytest_asyncio
from rich.console import Console

from mesh_local import (
    AgentStatus,
    CheckResult,
    Child,
    ChildState,
    MeshPlan,
    OnExit,
    RunningMesh,
    RunningWorkload,
    StateFolder,
)
from mesh_local.display._check_report import check_lines, mesh_lines
from mesh_local.display._duration_text import brief, milliseconds
from mesh_local.display._table import mesh_view
from mesh_local.observation._checks import Hop
from mesh_local.observation._http import Answer
from mesh_local.processes._guard import Guard, guarding
from mesh_local.processes._specs import ProcessSpec, Role
from mesh_testkit import Golden

NOW = datetime(2026, 1, 1, 12, tzinfo=UTC)
HEALTHY = AgentStatus(
    ready=True,
    serial="00a1b2c3d4e5f60718",
    not_before=NOW - timedelta(minutes=10),
    not_after=NOW + timedelta(minutes=20, seconds=5),
    xds_connected=True,
    envoy_state="ready",
)


@pytest_asyncio.fixture
async def guard() -> AsyncIterator[Guard]:
    async with guarding() as started:
        yield started


@pytest.fixture
def child(guard: Guard, tmp_path: Path) -> Callable[..., Child]:
    def make(name: str, state: ChildState = ChildState.RUNNING) -> Child:
        spec = ProcessSpec(
            name=name,
            role=Role.AGENT,
            arguments=("x",),
            environment={},
            directory=Path("/"),
            log=tmp_path / f"{name}.log",
        )
        made = Child(
            spec,
            on_exit=OnExit.RESTART,
            may_start=asyncio.Event(),
            kill_now=asyncio.Event(),
            guard=guard,
        )
        made.state = state
        return made

    return make


@pytest.fixture
def mesh(plan: MeshPlan, child: Callable[..., Child], tmp_path: Path) -> RunningMesh:
    """Make a mesh of which not everything is well, without running it."""
    workloads = [
        RunningWorkload(
            instance=each,
            agent=child(f"{each.name} agent"),
            app=child(each.name) if each.workload.command else None,
            status=HEALTHY,
            app_answers=True,
        )
        for each in plan.instances
    ]
    refused = AgentStatus(reasons=("envoy: no listeners yet",), xds_error="unavailable")
    workloads[1].status = refused
    workloads[2].app_answers = False
    workloads[2].app = child("frontend", ChildState.RESTARTING)
    workloads[2].app.last_exit = "exit code 3"
    workloads[2].app.restarts = 2
    (tmp_path / "frontend.log").write_text("started\nno database\n")
    workloads[3].status = None
    return RunningMesh(
        plan=plan,
        state=StateFolder(Path("/state")),
        control_plane=child("control-plane"),
        workloads=tuple(workloads),
    )


def shown(mesh: RunningMesh, width: int) -> str:
    console = Console(width=width, force_terminal=False, record=True, file=None)
    with console.capture() as capture:
        console.print(mesh_view(mesh, NOW))
    return "\n".join(line.rstrip() for line in capture.get().splitlines()) + "\n"


@pytest.mark.parametrize("width", [80, 160])
def test_the_table(width: int, mesh: RunningMesh, golden: Golden) -> None:
    mesh.findings = (
        "wrong since 2026-01-01 11:58:02 UTC: mesh/web.yaml; nothing of it is served",
        '  mesh/web.yaml:7: spec.resolution: expected one of NONE, STATIC, found the text "S"',
    )

    golden(f"table-{width}.txt", shown(mesh, width))


def test_no_address_is_broken_in_a_narrow_terminal(mesh: RunningMesh) -> None:
    text = shown(mesh, 80)

    for each in mesh.plan.instances:
        lines = text.splitlines()
        assert any(line.endswith(each.spiffe_id) for line in lines)
        for port in each.workload.ports:
            assert any(line.endswith(f"{each.addresses.app}:{port.port}") for line in lines)
    assert "  curl -x http://127.64.3.3:15002 http://backend.shop:8080/\n" in text


def test_the_report_of_the_checks(mesh: RunningMesh, golden: Golden) -> None:
    backend, web = (mesh.plan.instances[index].spiffe_id for index in (0, 2))
    mesh.workloads[2].status = HEALTHY
    told = Answer(status=200, headers={}, body="hello\n" + "x" * 400, elapsed_s=0.0123)
    user, frontend, outsider = mesh.plan.file.checks
    results = [
        CheckResult(
            plan=user,
            route=("127.64.3.2", 8080),
            answer=told,
            refusal=None,
            hop=Hop(callee=backend, caller=web),
            failures=(),
        ),
        CheckResult(
            plan=frontend,
            route=("127.64.3.3", 15002),
            answer=told,
            refusal=None,
            hop=Hop(callee=backend, caller="spiffe://elsewhere/ns/a/sa/b"),
            failures=("expected status 201, got 200",),
        ),
        CheckResult(
            plan=outsider,
            route=("127.64.1.1", 8080),
            answer=None,
            refusal="the connection was closed without an answer",
            hop=None,
            failures=(),
        ),
    ]
    lines = list(mesh_lines(mesh, NOW))
    for number, result in enumerate(results, start=1):
        lines += check_lines(number, result, mesh, NOW)
    golden("check_report.txt", "\n".join(lines) + "\n")


def test_a_workload_says_what_it_waits_for(mesh: RunningMesh) -> None:
    assert [each.not_ready for each in mesh.workloads] == [
        None,
        "envoy: no listeners yet",
        "frontend ended (exit code 3): no database",
        "its agent does not answer (see visitor agent.log)",
    ]


@pytest.mark.parametrize(
    ("duration", "text"),
    [
        (timedelta(seconds=-5), "expired"),
        (timedelta(seconds=8), "8s"),
        (timedelta(minutes=59, seconds=12), "59m 12s"),
        (timedelta(days=1, hours=3, minutes=5), "1d 3h"),
        (timedelta(hours=1, seconds=5), "1h 0m"),
    ],
)
def test_durations_are_brief(duration: timedelta, text: str) -> None:
    assert brief(duration) == text


def test_short_times_have_a_fitting_unit() -> None:
    assert (milliseconds(0.0032), milliseconds(1.44)) == ("3.2 ms", "1.4 s")
