"""The command `mesh-local`.

The control plane's modules take most of a second to load: `up` and `check` load them when called,
so that what another terminal asks is answered at once.
"""

import asyncio
import json
import os
import shlex
import sys
from collections.abc import Sequence
from dataclasses import asdict
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Annotated

import typer

from mesh_command_line import Form, examples
from mesh_command_line import say as say_error
from mesh_command_line.typer_application import add_documents, application
from mesh_command_line.typer_application import run as run_application
from mesh_local._asking_commands import OUTPUT, add_asking_commands
from mesh_local._errors import MeshLocalError, NotReady, ProcessEnded, Stopped
from mesh_local._init import EXAMPLE, write_example
from mesh_local.config._addresses import BLOCKS, Block
from mesh_local.config._mesh_file import load_mesh_file
from mesh_local.config._plan import count_of_workloads, plan_mesh
from mesh_local.processes._children import last_lines
from mesh_local.state._folder import default_state_folder

if TYPE_CHECKING:
    from mesh_local.observation._findings import Findings

_NAME = "mesh-local"
_INTERRUPTED = 130
"""The exit status of a shell's command that Ctrl-C ended."""


def _installed_version() -> str:
    try:
        return version("mesh-local")
    except PackageNotFoundError:
        return "unknown (not installed)"


app = application(
    _NAME,
    about="A whole service mesh on this machine, from one YAML file.",
    version=_installed_version,
)


_ALLOW_UNSUPPORTED = typer.Option(
    "--allow-unsupported",
    envvar="MESH_DISCOVERY_ALLOW_UNSUPPORTED",
    help="Let pass, without effect, configuration that Istio has and this mesh has not yet.",
)

# With typer's own kind of path, the file would be looked at, however long its mount hangs.
_MESH_FILE = typer.Argument(help="The mesh file (YAML).", parser=Path, metavar="FILE")
_DEFAULT_FILE = Path("mesh.yaml")


@app.command(epilog=examples("mesh-local init", "mesh-local init shop"))
def init(
    folder: Annotated[Path, typer.Argument(help="Where.", parser=Path, metavar="FOLDER")] = Path(),
) -> None:
    """Write a mesh of two services, to begin with.

    Nothing is overwritten.
    """
    for path in write_example(folder):
        typer.echo(path)
    typer.echo(f"run it with: mesh-local up {shlex.quote(str(folder / 'mesh.yaml'))}")


@app.command(
    epilog=examples(
        "mesh-local up",
        "mesh-local up mesh.yaml --once --state-dir /tmp/mesh",
        "mesh-local up --capture",
    )
)
def up(
    file: Annotated[Path, _MESH_FILE] = _DEFAULT_FILE,
    *,
    once: Annotated[
        bool, typer.Option("--once", help="Run the file's checks, tell what was seen, and stop.")
    ] = False,
    state_dir: Annotated[
        Path | None,
        typer.Option(
            "--state-dir",
            help="Where keys, generated configuration and logs go.",
            show_default=".mesh-local/NAME beside FILE",
            parser=Path,
            metavar="PATH",
        ),
    ] = None,
    allow_unsupported: Annotated[bool, _ALLOW_UNSUPPORTED] = False,
    capture: Annotated[
        bool,
        typer.Option(
            "--capture",
            help="Give each workload a network of its own, and redirect its connections.",
        ),
    ] = False,
) -> None:
    """Start the mesh in FILE and show it until Ctrl-C.

    With --capture programs need not know of the mesh: what they connect to, and the names that they
    ask for, go to their Envoys. That needs root or subordinate ids.
    """
    from rich.console import Console

    from mesh_local._up import once as run_once
    from mesh_local._up import up as run_up

    mesh = load_mesh_file(file)
    folder = default_state_folder(file) if state_dir is None else state_dir
    run = run_once if once else run_up

    def well() -> int:
        running = run(
            mesh,
            folder=folder,
            console=Console(),
            allow_unsupported=allow_unsupported,
            redirected=capture,
        )
        return 0 if asyncio.run(running) else 1

    if not capture:
        raise typer.Exit(well())
    from mesh_local.capture._separating import run_separately

    raise typer.Exit(run_separately(well))


@app.command(epilog=examples("mesh-local demo", "mesh-local demo --keep"))
def demo(
    *,
    keep: Annotated[
        bool, typer.Option("--keep", help="Keep it running and show it until Ctrl-C.")
    ] = False,
) -> None:
    """Run two services that talk mutual TLS, and check them.

    Their files come along with this command.
    """
    file = EXAMPLE / "mesh.yaml"
    with TemporaryDirectory(prefix="mesh-local-demo-") as folder:
        up(file, once=not keep, state_dir=Path(folder, "state"))


@app.command(epilog=examples("mesh-local check", "mesh-local check mesh.yaml -o json"))
def check(
    file: Annotated[Path, _MESH_FILE] = _DEFAULT_FILE,
    *,
    allow_unsupported: Annotated[bool, _ALLOW_UNSUPPORTED] = False,
    output: Annotated[Form | None, OUTPUT] = None,
) -> None:
    """Say all that is wrong with FILE and its configuration.

    Nothing is started.
    """
    from mesh_local.lifetime._before_start import all_findings
    from mesh_local.observation._findings import Findings

    try:
        mesh = load_mesh_file(file)
    except MeshLocalError as error:
        if output is not Form.JSON:
            raise
        _print_findings(Findings(problems=tuple(str(error).splitlines())), workloads=0)
        raise typer.Exit(1) from None
    # Any block will do: whether the configuration is right does not depend on addresses.
    plan = plan_mesh(mesh, Block(number=BLOCKS[0]))
    findings = all_findings(plan, os.environ, allow_unsupported=allow_unsupported)
    wrong = (*findings.problems, *findings.unreachable)
    if output is Form.JSON:
        _print_findings(findings, workloads=len(plan.instances))
        raise typer.Exit(1 if wrong else 0)
    for note in findings.notes:
        typer.echo(f"note: {note}", err=True)
    for warning in findings.warnings:
        typer.echo(f"warning: {warning}", err=True)
    for line in wrong:
        typer.echo(f"mesh-local: {line}", err=True)
    if wrong:
        raise typer.Exit(1)
    whose = "its" if len(plan.instances) == 1 else "their"
    typer.echo(f"{count_of_workloads(plan)} and {whose} configuration are good")


def _print_findings(findings: "Findings", *, workloads: int) -> None:
    document = asdict(findings)
    del document["starts"]  # what agents are started with is no finding
    del document["missing"]  # they are among those that are unreachable
    typer.echo(json.dumps({"workloads": workloads, **document}, indent=2))


@app.command("version", epilog=examples("mesh-local version", "mesh-local version -o json"))
def show_version(
    *,
    output: Annotated[Form | None, OUTPUT] = None,
) -> None:
    """Print the version."""
    found = _installed_version()
    typer.echo(json.dumps({"version": found}) if output is Form.JSON else found)


add_asking_commands(app)
add_documents(app, name=_NAME)


def main() -> None:
    """Run the command and exit."""
    sys.exit(run(sys.argv[1:]))


def run(arguments: Sequence[str]) -> int:
    """Run the command and return its exit status."""
    try:
        return run_application(app, arguments, name=_NAME)
    except Stopped as error:
        say_error(str(error), name=_NAME)
        return _INTERRUPTED
    except MeshLocalError as error:
        for line in str(error).splitlines():
            say_error(line, name=_NAME)
        if isinstance(error, NotReady | ProcessEnded):
            _say_log(error.log)
        return 1


def _say_log(log: Path) -> None:
    lines = last_lines(log)
    typer.echo(f"the last lines of {log}:" if lines else f"{log} is empty", err=True)
    for line in lines:
        typer.echo(f"  {line}", err=True)
