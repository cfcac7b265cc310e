"""`mesh-local up`: runs a mesh and shows it until it is stopped, or runs its checks once."""

import asyncio
from collections.abc import AsyncIterator, Iterable, Iterator
from contextlib import asynccontextmanager, contextmanager
from datetime import UTC, datetime
from functools import partial
from pathlib import Path

from rich.console import Console
from rich.live import Live
from rich.text import Text

from mesh_lifecycle import Stopping, configure_logging, in_background, stop_signals
from mesh_local._duration_text import milliseconds
from mesh_local._errors import Stopped
from mesh_local._mesh_status import mesh_status
from mesh_local._running_mesh import RunningMesh
from mesh_local.asking._answering import Answers, answering
from mesh_local.config._mesh_file import MeshFile
from mesh_local.config._plan import count_of_workloads
from mesh_local.display._check_report import check_lines, mesh_lines
from mesh_local.display._screen import mesh_screen
from mesh_local.lifetime._before_start import refuse
from mesh_local.lifetime._file_following import follow_mesh_file
from mesh_local.lifetime._mesh import editable_mesh, prepared, running_mesh
from mesh_local.observation._checks import run_check
from mesh_local.observation._findings import Findings
from mesh_local.processes._children import OnExit
from mesh_local.state._folder import StateFolder

ONCE_READY_S = 90.0
_REFRESH_S = 0.5
_HINT = "Ctrl-C stops it; elsewhere: mesh-local status, logs, request, exec, down"
_SECOND_STOP_POLL_S = 0.1
_SHOWN_WARNINGS = 5


async def up(
    file: MeshFile,
    *,
    folder: Path,
    console: Console,
    allow_unsupported: bool = False,
    redirected: bool = False,
) -> bool:
    """Run a mesh and show it until it is asked to stop; a second signal kills what still stops.

    Returns True: a stop that was asked for is well.
    """
    with prepared(file, folder, redirected=redirected) as (plan, state), _own_log(state):
        say(console, f"starting the mesh {file.name} with {count_of_workloads(plan)}")
        try:
            async with _until_stopped(console, file, state) as (kill_now, answers):
                running = editable_mesh(
                    plan,
                    state,
                    kill_now=kill_now,
                    allow_unsupported=allow_unsupported,
                    on_findings=partial(_on_findings_at_start, console=console),
                )
                async with running as (mesh, replicas):
                    answers.mesh = mesh
                    following = follow_mesh_file(mesh, replicas, on_edit=mesh.note_edit)
                    async with in_background(following, name="mesh file"):
                        await _show(mesh, console)
        except Stopped:
            say(console, f"stopped; its logs are in {state.logs}")
    return True


def _on_findings_at_start(findings: Findings, *, console: Console) -> None:
    """Refuse what would not start, and rules that name something that is not there.

    What else can't be reached, such as a port of two workloads, is shown while the rest runs.
    """
    refuse((*findings.problems, *findings.missing))
    _say_warnings(findings, console)


def _on_findings_of_checks(findings: Findings, *, console: Console) -> None:
    """Refuse what `mesh-local check` refuses."""
    refuse((*findings.problems, *findings.unreachable))
    _say_warnings(findings, console)


def _say_warnings(findings: Findings, console: Console) -> None:
    for warning in findings.warnings[:_SHOWN_WARNINGS]:
        say(console, f"warning: {warning}")
    if (more := len(findings.warnings) - _SHOWN_WARNINGS) > 0:
        say(console, f"warning: {more} more, which mesh-local check tells")


async def _show(mesh: RunningMesh, console: Console) -> None:
    """Show the mesh; a file, which can't change what it has, gets the screen when all is ready."""
    if not console.is_terminal:
        await _until_all_ready(mesh)
        say(console, "all workloads are ready")
        console.print(_screen(mesh, console.width, None), soft_wrap=True)
        await asyncio.Event().wait()
    # The screen goes with the mesh: what it says last is not so any more.
    with Live(console=console, auto_refresh=False, transient=True) as live:
        while True:
            # The terminal may have got another size. Its last line stays free for the cursor.
            live.update(_screen(mesh, console.width, console.height - 1), refresh=True)
            await asyncio.sleep(_REFRESH_S)


def _screen(mesh: RunningMesh, width: int, height: int | None) -> Text:
    status, now = mesh_status(mesh), datetime.now(UTC)
    return mesh_screen(status, now, width=width, height=height, hint=_HINT)


async def _until_all_ready(mesh: RunningMesh) -> None:
    # An edit may add others meanwhile.
    while any(each.not_ready for each in mesh.workloads):  # noqa: ASYNC110
        await asyncio.sleep(_REFRESH_S)


async def once(
    file: MeshFile,
    *,
    folder: Path,
    console: Console,
    allow_unsupported: bool = False,
    redirected: bool = False,
) -> bool:
    """Run a mesh until its checks are done; tells whether all of them passed.

    Raises `Stopped` if the user stops it before, `NotReady` and `ProcessEnded`.
    """
    loop = asyncio.get_running_loop()
    started = loop.time()
    with prepared(file, folder, redirected=redirected) as (plan, state), _own_log(state):
        say(console, f"Starting the mesh {file.name}; its logs are in {state.logs}")
        async with _until_stopped(console, file, state) as (kill_now, answers):
            running = running_mesh(
                plan,
                state,
                on_exit=OnExit.FAIL,
                kill_now=kill_now,
                allow_unsupported=allow_unsupported,
                on_findings=partial(_on_findings_of_checks, console=console),
            )
            async with running as mesh:
                answers.mesh = mesh
                await mesh.wait_ready(ONCE_READY_S)
                ready_after = loop.time() - started
                passed = await _run_checks(mesh, console)
                stopping_since = loop.time()
    took = f"ready after {milliseconds(ready_after)}"
    took += f", stopped in {milliseconds(loop.time() - stopping_since)}"
    verdict = "All checks passed" if passed else "Not all checks passed"
    say(console, f"{verdict}; the mesh was {took}.")
    return passed


async def _run_checks(mesh: RunningMesh, console: Console) -> bool:
    _say_all(console, mesh_lines(mesh, datetime.now(UTC)))
    passed = True
    for number, check in enumerate(mesh.plan.file.checks, start=1):
        result = await run_check(check, mesh.plan)
        _say_all(console, check_lines(number, result, mesh, datetime.now(UTC)))
        passed = passed and result.passed
    if not mesh.plan.file.checks:
        say(console, f"{mesh.plan.file.path} has no checks; every workload is ready.")
    return passed


def say(console: Console, line: str) -> None:
    """Print a line as it is, however wide the terminal."""
    console.print(line, markup=False, highlight=False, soft_wrap=True)


def _say_all(console: Console, lines: Iterable[str]) -> None:
    for line in lines:
        say(console, line)


@asynccontextmanager
async def _until_stopped(
    console: Console, file: MeshFile, state: StateFolder
) -> AsyncIterator[tuple[asyncio.Event, Answers]]:
    """Run the block until a signal or `mesh-local down`, then cancel it and raise `Stopped`.

    Yields an event that is set when the user asks a second time, and the answers for other
    terminals, which get them until the block has been left.
    """
    kill_now = asyncio.Event()
    with stop_signals() as stopping:
        answers = Answers(file.name, on_stop=lambda: stopping.request("mesh-local down"))

        async def stop() -> None:
            reason = await stopping.wait()
            say(console, f"stopping in order ({reason}); ask once more to stop at once")
            raise Stopped(f"stopped by {reason} before the checks were done")

        async with (
            answering(state, answers),
            in_background(_notice_second_stop(stopping, kill_now), name="second-stop"),
            in_background(stop(), name="stop-request"),
        ):
            yield kill_now, answers


async def _notice_second_stop(stopping: Stopping, kill_now: asyncio.Event) -> None:
    while True:
        await asyncio.sleep(_SECOND_STOP_POLL_S)
        if stopping.count > 1:
            kill_now.set()


@contextmanager
def _own_log(state: StateFolder) -> Iterator[None]:
    """Send this process's own log records to a file beside those of the others."""
    with (state.logs / "mesh-local.log").open("a", encoding="utf-8") as file:
        configure_logging("info", stream=file)
        yield
