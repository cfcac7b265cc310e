import asyncio
import io
import re
from collections.abc import AsyncIterator, Callable
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import msgspec
import pytest
import pytest_asyncio
from rich.console import Console

from mesh_lifecycle import in_background
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
from mesh_local._duration_text import brief, milliseconds
from mesh_local._mesh_status import MeshStatus, mesh_status
from mesh_local._up import _show, say
from mesh_local.display._check_report import check_lines, mesh_lines
from mesh_local.display._screen import mesh_screen
from mesh_local.observation._checks import Hop
from mesh_local.observation._http import Answer
from mesh_local.processes._guard import Guard, guarding
from mesh_local.processes._specs import ProcessSpec, Role
from mesh_testkit import Golden, until

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
        child = Child(
            spec,
            on_exit=OnExit.RESTART,
            may_start=asyncio.Event(),
            kill_now=asyncio.Event(),
            guard=guard,
        )
        child.state = state
        return child

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


def shown(mesh: RunningMesh, width: int, height: int | None = None) -> str:
    console = Console(width=width, force_terminal=False, file=None)
    with console.capture() as capture:
        screen = mesh_screen(
            mesh_status(mesh, now=NOW), NOW, width=width, height=height, hint="Ctrl-C"
        )
        console.print(screen, soft_wrap=True)
    return capture.get()


def left_on_terminal(output: str) -> list[str]:
    """Return the lines that a terminal shows at the end of an output."""
    lines, at = [""], 0
    for part in re.findall(r"\x1b\[[0-9;?]*[A-Za-z]|\x1b\].*?\x1b\\|\r|\n|[^\x1b\r\n]+", output):
        if part == "\n":
            at += 1
            lines += [""] * (at + 1 - len(lines))
        elif part.startswith("\x1b[") and part.endswith("A"):
            at -= int(part[2:-1])
        elif part == "\x1b[2K":
            lines[at] = ""
        elif not part.startswith(("\x1b", "\r")):
            lines[at] += part
    return [each for each in lines if each]


async def test_a_mesh_that_has_stopped_leaves_no_screen_that_says_otherwise(
    mesh: RunningMesh, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TERM", "xterm")  # a dumb terminal has no screen to take away
    output = io.StringIO()
    console = Console(file=output, force_terminal=True, width=100, height=24)
    say(console, "starting")
    async with in_background(_show(mesh, console), name="screen"):
        await until(lambda: "ready" in output.getvalue(), what="the screen")
        assert "backend-1.shop" in "".join(left_on_terminal(output.getvalue()))
    say(console, "stopped")
    assert left_on_terminal(output.getvalue()) == ["starting", "stopped"]


def many(mesh: RunningMesh, count: int) -> None:
    """Give it many workloads that are ready, and one at the end that is not."""
    ready, broken = mesh.workloads[0], mesh.workloads[2]
    mesh.workloads = (*[ready] * (count - 1), broken)


@pytest.mark.parametrize("width", [80, 200])
def test_the_screen(width: int, mesh: RunningMesh, golden: Golden) -> None:
    mesh.findings = (
        "wrong since 2026-01-01 11:58:02 UTC: mesh/web.yaml; nothing of it is served",
        '  mesh/web.yaml:7: spec.resolution: expected one of NONE, STATIC, found the text "S"',
    )

    golden(f"screen-{width}.txt", shown(mesh, width))


def test_the_first_lines_tell_how_many_are_ready_and_what_is_wrong(mesh: RunningMesh) -> None:
    first, *others = shown(mesh, 80).splitlines()

    assert first.startswith("shop  1 of 4 ready  1 problem")
    assert others[0] == (
        "frontend ended (exit code 3) and is started again, 2 restarts: no database"
    )


def test_a_workload_that_starts_is_no_problem_unless_that_takes_long(mesh: RunningMesh) -> None:
    mesh.workloads = mesh.workloads[:2]
    mesh.workloads[1].begun_at = NOW - timedelta(seconds=5)

    assert shown(mesh, 80).startswith("shop  1 of 2 ready  mutual TLS STRICT  control plane")
    assert "starting  envoy: no listeners yet" in shown(mesh, 80)

    mesh.workloads[1].begun_at = NOW - timedelta(minutes=1)

    assert shown(mesh, 80).startswith("shop  1 of 2 ready  1 problem")


def test_a_workload_that_was_ready_and_is_not_any_more_is_a_problem(mesh: RunningMesh) -> None:
    mesh.workloads = mesh.workloads[:2]
    mesh.workloads[1].begun_at, mesh.workloads[1].was_ready = NOW, True

    first, problem, *_ = shown(mesh, 80).splitlines()

    assert first.startswith("shop  1 of 2 ready  1 problem")
    assert problem == "backend-2: envoy: no listeners yet"


def test_each_workload_has_one_line(mesh: RunningMesh) -> None:
    lines = shown(mesh, 80).splitlines()

    for each in mesh.plan.instances:
        assert sum(line.startswith(each.full_name) for line in lines) == 1


@pytest.mark.parametrize(("width", "height"), [(80, 24), (200, 50), (40, 12)])
@pytest.mark.parametrize("count", [1, 8, 30, 100])
def test_the_screen_fits(mesh: RunningMesh, width: int, height: int, count: int) -> None:
    many(mesh, count)
    mesh.findings = tuple(f"mesh/web.yaml:{line}: something is wrong here" for line in range(40))

    lines = shown(mesh, width, height).splitlines()

    assert sum(max(1, -(-len(line) // width)) for line in lines) <= height


def test_a_workload_with_trouble_is_shown_where_not_all_have_room(mesh: RunningMesh) -> None:
    many(mesh, 40)

    lines = shown(mesh, 80, 24).splitlines()

    assert any(line.startswith("frontend.shop") and "restarting" in line for line in lines)
    assert any(line.startswith("…") and "more, all ready" in line for line in lines)


def test_serials_of_one_day_differ(mesh: RunningMesh) -> None:
    one, other = "4d416b0b7a9691fdbd127872c2dabf7251ec3f", "4d416b0b7a9691fdbd1272410b41725241fa"
    mesh.workloads = (mesh.workloads[0], replace(mesh.workloads[0]))
    mesh.workloads[0].status = replace(HEALTHY, serial=one)
    mesh.workloads[1].status = replace(HEALTHY, serial=other)

    text = shown(mesh, 80)

    assert "…dabf7251ec3f" in text
    assert "…0b41725241fa" in text


def test_addresses_can_be_clicked(mesh: RunningMesh) -> None:
    console = Console(width=80, force_terminal=True, color_system="standard")
    with console.capture() as capture:
        console.print(mesh_screen(mesh_status(mesh), NOW, width=80), soft_wrap=True)

    links = re.findall(r"\x1b\]8;[^;]*;(http[^\x1b]+)\x1b", capture.get())
    assert links == ["http://127.64.1.2:8080"]


def test_a_workload_that_is_not_ready_says_in_its_line_what_it_waits_for(
    mesh: RunningMesh,
) -> None:
    assert "backend-2.shop   starting    envoy: no listeners yet\n" in shown(mesh, 80)


def test_refused_configuration_is_reported_once_with_all_whom_it_concerns(
    mesh: RunningMesh,
) -> None:
    mesh.workloads = (mesh.workloads[0], replace(mesh.workloads[0]))
    for each in mesh.workloads:
        each.status = replace(HEALTHY, xds_error="no such cluster", configuration_refused=True)

    lines = shown(mesh, 80).splitlines()

    assert lines[0].startswith("shop  2 of 2 ready  1 problem")
    assert lines[1] == "backend-1, backend-1: no such cluster"
    assert not mesh_status(mesh).is_well


@pytest.mark.parametrize(
    ("state", "sentence"),
    [
        (ChildState.RUNNING, "no answer from the control plane 127.64.0.1:15012"),
        (
            ChildState.RESTARTING,
            (
                "no answer from the control plane 127.64.0.1:15012: it is restarting after killed "
                "by SIGKILL"
            ),
        ),
    ],
)
def test_workloads_are_not_accused_of_a_control_plane_that_is_away(
    mesh: RunningMesh, state: ChildState, sentence: str
) -> None:
    mesh.workloads = (mesh.workloads[0], replace(mesh.workloads[0]))
    for each in mesh.workloads:
        each.status = replace(HEALTHY, xds_connected=False, xds_error="no answer within 5 s")
    mesh.control_plane.state, mesh.control_plane.last_exit = state, "killed by SIGKILL"
    mesh.control_plane_answers = False

    first, *lines = shown(mesh, 120).splitlines()

    assert first.startswith("shop  2 of 2 ready  1 problem")
    assert lines[:2] == [sentence, ""]
    assert mesh_status(mesh).problems == (sentence,)
    assert not mesh_status(mesh).is_well


def test_an_agent_that_does_not_reach_a_control_plane_which_answers_is_reported(
    mesh: RunningMesh,
) -> None:
    mesh.workloads = mesh.workloads[:1]
    mesh.workloads[0].status = replace(HEALTHY, xds_error="connection refused")

    assert mesh_status(mesh).problems == (
        "backend-1: no connection to the control plane 127.64.0.1:15012: connection refused",
    )


def test_all_that_the_first_line_counts_is_among_the_problems_for_programs(
    mesh: RunningMesh,
) -> None:
    mesh.findings = ("wrong since then: mesh/web.yaml", "  mesh/web.yaml:7: wrong")
    mesh.file_problems = ("mesh.yaml:1: wrong",)

    assert "3 problems" in shown(mesh, 80).splitlines()[0]
    assert mesh_status(mesh).problems[1:] == (
        "mesh.yaml:1: wrong",
        "wrong since then: mesh/web.yaml\n  mesh/web.yaml:7: wrong",
    )


def test_a_process_that_ends_again_and_again_says_when_it_is_started(mesh: RunningMesh) -> None:
    mesh.workloads = mesh.workloads[2:3]
    assert mesh.workloads[0].app is not None
    mesh.workloads[0].app.starts_after_s = 4.04

    (found,) = mesh_status(mesh).workloads

    assert (found.state, found.restarts) == ("restarting", 2)
    assert found.reason == (
        "frontend ended (exit code 3) and is started again after 4.0 s, 2 restarts: no database"
    )
    mesh.workloads[0].app.state = ChildState.ENDED
    (found,) = mesh_status(mesh).workloads
    assert (found.state, found.reason) == ("ended", "frontend ended (exit code 3): no database")


def test_restarts_of_an_agent_are_counted(mesh: RunningMesh) -> None:
    mesh.workloads = mesh.workloads[:1]
    mesh.workloads[0].agent.restarts = 3

    (found,) = mesh_status(mesh).workloads

    assert (found.restarts, found.agent_restarts) == (0, 3)
    assert found.envoy == "ready, agent 3 restarts"


@pytest.mark.parametrize(
    ("state", "restarts", "answers", "words"),
    [
        (ChildState.RUNNING, 0, True, "running"),
        (ChildState.RUNNING, 1, True, "running, 1 restart"),
        (ChildState.RUNNING, 1, False, "does not answer"),
        (ChildState.RESTARTING, 12, False, "restarting"),
    ],
)
def test_the_first_line_has_the_control_plane_s_address_in_any_state(
    mesh: RunningMesh, state: ChildState, restarts: int, words: str, *, answers: bool
) -> None:
    mesh.workloads = mesh.workloads[:1]
    plane = mesh.control_plane
    plane.state, plane.restarts, plane.last_exit = state, restarts, "killed by SIGKILL"
    mesh.control_plane_answers = answers

    first, *_ = shown(mesh, 80).splitlines()

    assert first.endswith(f"  control plane 127.64.0.1:15012 {words}")


def test_no_command_is_broken_in_a_narrow_terminal(mesh: RunningMesh) -> None:
    assert "curl -x http://127.64.3.3:15002 http://backend.shop:8080/\n" in shown(mesh, 40)


def test_the_state_is_the_same_after_its_way_through_json(mesh: RunningMesh) -> None:
    status = mesh_status(mesh)

    assert msgspec.json.decode(msgspec.json.encode(status), type=MeshStatus) == status


def test_a_mesh_is_well_when_all_is_ready_and_nothing_is_wrong(mesh: RunningMesh) -> None:
    assert not mesh_status(mesh).is_well
    for each in mesh.workloads:
        each.status, each.app_answers = HEALTHY, True
        if each.app is not None:
            each.app.state = ChildState.RUNNING
    assert mesh_status(mesh).is_well
    mesh.findings = ("mesh/web.yaml:7: wrong",)
    assert not mesh_status(mesh).is_well
    mesh.findings, mesh.file_problems = (), ("mesh.yaml:1: wrong",)
    assert not mesh_status(mesh).is_well
    mesh.file_problems = ()
    mesh.control_plane.state = ChildState.RESTARTING
    assert not mesh_status(mesh).is_well


def test_the_report_of_the_checks(mesh: RunningMesh, golden: Golden) -> None:
    backend, web = (mesh.plan.instances[index].spiffe_id for index in (0, 2))
    mesh.workloads[2].status = HEALTHY
    answer = Answer(status=200, headers={}, body="hello\n" + "x" * 400, elapsed_s=0.0123)
    user, frontend, outsider = mesh.plan.file.checks
    results = [
        CheckResult(
            plan=user,
            route=("127.64.3.2", 8080),
            answer=answer,
            refusal=None,
            hop=Hop(callee=backend, caller=web),
            failures=(),
        ),
        CheckResult(
            plan=frontend,
            route=("127.64.3.3", 15002),
            answer=answer,
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
        "frontend ended (exit code 3) and is started again, 2 restarts: no database",
        "its agent does not answer (see visitor agent.log)",
    ]


@pytest.mark.parametrize(
    ("duration", "text"),
    [
        (timedelta(seconds=-5), "expired"),
        (timedelta(seconds=8), "8 s"),
        (timedelta(hours=22, minutes=40), "22 h 40 min"),
    ],
)
def test_durations_are_brief(duration: timedelta, text: str) -> None:
    assert brief(duration) == text


def test_short_times_have_a_fitting_unit() -> None:
    assert (milliseconds(0.0032), milliseconds(1.44)) == ("3.2 ms", "1.4 s")
