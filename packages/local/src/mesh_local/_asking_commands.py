"""The commands about a mesh that runs in another terminal."""

import asyncio
import json
import os
import sys
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated

import msgspec
import typer
from rich.console import Console

from mesh_command_line import Form, examples
from mesh_local._duration_text import milliseconds
from mesh_local._errors import MeshLocalError
from mesh_local.asking._asking import (
    fetch_environment,
    fetch_mesh_status,
    fetch_route,
    join_mesh,
    stop_mesh,
)
from mesh_local.asking._finding import find_state
from mesh_local.asking._logs import log_lines
from mesh_local.capture._joining import enter_network
from mesh_local.config._addresses import Inside
from mesh_local.display._screen import mesh_screen
from mesh_local.observation._http import Answer, fetch
from mesh_local.observation._missing_service import UNREACHED
from mesh_local.processes._specs import find_program

_WHICH = "The mesh file.  [default: that of the mesh in this directory]"

File = Annotated[
    Path | None, typer.Argument(help=_WHICH, show_default=False, parser=Path, metavar="FILE")
]
FileOption = Annotated[
    Path | None,
    typer.Option("--file", help=_WHICH, show_default=False, parser=Path, metavar="FILE"),
]
StateDir = Annotated[
    Path | None,
    typer.Option("--state-dir", help="Its state folder.", parser=Path, metavar="PATH"),
]
OUTPUT = typer.Option("--output", "-o", help="A form for programs.", metavar="json")
Output = Annotated[Form | None, OUTPUT]
_FLAGS_BELONG_TO_THE_COMMAND = {"allow_interspersed_args": False, "ignore_unknown_options": True}


def add_asking_commands(app: typer.Typer) -> None:
    """Add them to the application."""
    for command, lines in (
        (status, ("mesh-local status", "mesh-local status -o json | jq .workloads[].urls")),
        (wait, ("mesh-local wait", "mesh-local wait --timeout 5")),
        (logs, ("mesh-local logs -f", "mesh-local logs backend backend.envoy --lines 100")),
        (down, ("mesh-local down", "mesh-local down shop/mesh.yaml")),
        (
            request,
            (
                "mesh-local request frontend http://backend/price",
                "mesh-local request frontend http://backend/ -X POST -d x -o json",
            ),
        ),
    ):
        app.command(command.__name__, epilog=examples(*lines))(command)
    app.command(
        "exec",
        epilog=examples(
            "mesh-local exec frontend -- curl -s http://backend:8080/",
            "mesh-local exec frontend -- sh -c 'echo $MESH_SPIFFE_ID'",
        ),
        context_settings=_FLAGS_BELONG_TO_THE_COMMAND,
    )(execute)


def status(
    file: File = None,
    *,
    named: FileOption = None,
    state_dir: StateDir = None,
    output: Output = None,
) -> None:
    """Show a running mesh as its own terminal does.

    The exit status is 0 if all is ready and its rules have no mistakes, and 1 if not.
    """
    found = fetch_mesh_status(find_state(file=_one_of(file, named), state_dir=state_dir))
    if output is Form.JSON:
        typer.echo(msgspec.json.format(msgspec.json.encode(found), indent=2).decode())
    else:
        console = Console()
        shown = mesh_screen(found, datetime.now(UTC), width=console.width)
        console.print(shown, soft_wrap=True)
    raise typer.Exit(0 if found.is_well else 1)


def _one_of(file: Path | None, named: Path | None) -> Path | None:
    """Return the file that is given as an argument or with --file, as other commands have it."""
    if file is not None and named is not None and file != named:
        raise typer.BadParameter(f"two files are named, {file} and {named}")
    return named if file is None else file


def wait(
    file: File = None,
    *,
    named: FileOption = None,
    state_dir: StateDir = None,
    timeout_s: Annotated[
        float, typer.Option("--timeout", min=0.001, help="Seconds to wait at most.")
    ] = 30.0,
) -> None:
    """Wait until every proxy of a mesh has accepted what is saved.

    The exit status is 1 if a file is wrong, a proxy refuses or the time is up.
    """
    # The control plane's modules are not loaded by the other commands.
    from mesh_discovery import NotDistributed, StatusError, wait_for_distribution
    from mesh_local.config._mesh_file import load_mesh_file
    from mesh_local.config._plan import MONITORING_PORT
    from mesh_local.observation._findings import Places

    state = find_state(file=_one_of(file, named), state_dir=state_dir)
    found = fetch_mesh_status(state)
    host = "127.0.0.1" if join_mesh(state) else found.control_plane.rpartition(":")[0]
    try:
        count = wait_for_distribution(host, MONITORING_PORT, timeout_s=timeout_s)
    except StatusError as error:
        raise MeshLocalError(str(error)) from None
    except NotDistributed as error:
        mesh = load_mesh_file(Path(found.file))
        places = Places(mesh, config=state.config, mesh_config=state.mesh_config)
        raise MeshLocalError("\n".join(map(places.with_user_places, error.args))) from None
    typer.echo(f"{count} {'proxy has' if count == 1 else 'proxies have'} all that is saved")


def logs(
    names: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="WORKLOAD",
            help="WORKLOAD, WORKLOAD.agent, WORKLOAD.envoy, control-plane or mesh-local.  "
            "[default: all]",
            show_default=False,
        ),
    ] = None,
    *,
    file: FileOption = None,
    state_dir: StateDir = None,
    follow: Annotated[bool, typer.Option("--follow", "-f", help="Show also what comes.")] = False,
    lines: Annotated[int, typer.Option("--lines", "-n", min=0, help="Of each log, the last.")] = 20,
) -> None:
    """Show what the processes of a mesh have logged.

    Also of a mesh that has ended, until it is run again.
    """
    state = find_state(file=file, state_dir=state_dir, running=False)
    is_one = names is not None and len(names) == 1
    for name, line in log_lines(state.logs, names or (), count=lines, follow=follow):
        sys.stdout.buffer.write(line + b"\n" if is_one else f"{name} | ".encode() + line + b"\n")
        if follow:
            sys.stdout.buffer.flush()


def down(file: File = None, *, named: FileOption = None, state_dir: StateDir = None) -> None:
    """Stop a running mesh in order, and wait until it has ended."""
    state = find_state(file=_one_of(file, named), state_dir=state_dir)
    stop_mesh(state)
    typer.echo(f"the mesh of {state.path} has stopped")


def execute(
    workload: Annotated[str, typer.Argument(metavar="WORKLOAD", help="Whose environment it gets.")],
    command: Annotated[list[str], typer.Argument(metavar="COMMAND", help="What to run.")],
    *,
    file: FileOption = None,
    state_dir: StateDir = None,
) -> None:
    """Run a command in the environment of a workload's program.

    It has its variables, so that http_proxy leads to its Envoy, and its network if the mesh runs
    with --capture. The exit status is the command's.
    """
    state = find_state(file=file, state_dir=state_dir)
    given = fetch_environment(state, workload)
    environment = {**os.environ, **given.variables}
    words = command[1:] if command[0] == "--" else command
    if not words:
        raise typer.BadParameter("there is no command behind --")
    program = find_program(words[0], Path.cwd(), environment.get("PATH", os.defpath))
    if program is None:
        raise typer.BadParameter(f'there is no program "{words[0]}"')
    if given.network is not None:
        join_mesh(state)
        enter_network(given.network)
    os.execve(program, words, environment)  # noqa: S606 - the user's own command, without a shell


def request(
    sender: Annotated[str, typer.Argument(metavar="FROM", help="The workload that sends it.")],
    url: Annotated[str, typer.Argument(metavar="URL", help="As http://backend/path.")],
    *,
    file: FileOption = None,
    state_dir: StateDir = None,
    method: Annotated[str, typer.Option("--method", "-X", help="The method.")] = "GET",
    header: Annotated[
        list[str] | None, typer.Option("--header", "-H", help="As `name: value`.")
    ] = None,
    data: Annotated[str, typer.Option("--data", "-d", help="The body.")] = "",
    timeout_s: Annotated[
        float, typer.Option("--timeout", min=0.001, help="Seconds to wait for the answer.")
    ] = 30.0,
    output: Output = None,
) -> None:
    """Send a request as a workload, through its Envoy.

    Prints the body of the answer; the exit status is 1 for a status from 400 on, or no answer.
    """
    headers = dict(map(_header, header or ()))
    state = find_state(file=file, state_dir=state_dir)
    way = fetch_route(state, sender, url)
    if way.network is not None:
        join_mesh(state)
    try:
        answer = asyncio.run(
            fetch(
                way.host if way.network is None else Inside(way.network, way.host),
                way.port,
                method=method,
                target=way.target,
                authority=way.authority,
                headers=headers,
                body=data.encode(),
                timeout_s=timeout_s,
            )
        )
    except MeshLocalError as error:
        lines = [f"{method} {url} as {sender}: {error}", *([way.missing] if way.missing else [])]
        raise MeshLocalError("\n".join(lines)) from None
    _show(answer, output)
    if way.missing and answer.status == UNREACHED:
        typer.echo(f"mesh-local: {way.missing}", err=True)
    raise typer.Exit(0 if answer.status < 400 else 1)


def _header(text: str) -> tuple[str, str]:
    name, colon, value = text.partition(":")
    if not colon or not name.strip():
        raise typer.BadParameter(f'a header is written as "name: value", found "{text}"')
    return name.strip(), value.strip()


def _show(answer: Answer, output: Form | None) -> None:
    if output is Form.JSON:
        typer.echo(json.dumps(asdict(answer), indent=2))
        return
    typer.echo(f"{answer.status} after {milliseconds(answer.elapsed_s)}", err=True)
    typer.echo(answer.body, nl=not answer.body.endswith("\n"))
