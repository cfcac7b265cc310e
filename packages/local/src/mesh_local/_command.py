"""The command `mesh-local`."""

import asyncio
import json
import sys
from dataclasses import asdict
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Annotated

import typer
from rich.console import Console

from mesh_command_line import Form, add_documents, application, examples, run
from mesh_local._errors import MeshLocalError, NotReady, ProcessEnded
from mesh_local._up import Stopped, default_state_folder, say
from mesh_local._up import once as run_once
from mesh_local._up import up as run_up
from mesh_local.config._addresses import BLOCKS, Block
from mesh_local.config._mesh_file import load_mesh_file
from mesh_local.config._plan import plan_mesh
from mesh_local.observation._findings import Findings, check_mesh
from mesh_local.processes._children import last_lines

_NAME = "mesh-local"


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

_OUTPUT = typer.Option("--output", "-o", help="A form for programs.", metavar="json")

# With typer's own kind of path, the file would be looked at, however long its mount hangs.
_MESH_FILE = typer.Argument(
    help="The mesh file (YAML).", show_default=False, parser=Path, metavar="FILE"
)


@app.command(
    epilog=examples(
        "mesh-local up mesh.yaml", "mesh-local up mesh.yaml --once --state-dir /tmp/mesh"
    )
)
def up(
    file: Annotated[Path, _MESH_FILE],
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
) -> None:
    """Start the mesh in FILE and show it until Ctrl-C."""
    errors = Console(stderr=True)
    try:
        mesh = load_mesh_file(file)
        folder = default_state_folder(file) if state_dir is None else state_dir
        if once:
            passed = asyncio.run(
                run_once(
                    mesh, folder=folder, console=Console(), allow_unsupported=allow_unsupported
                )
            )
            raise typer.Exit(0 if passed else 1)
        asyncio.run(
            run_up(mesh, folder=folder, console=Console(), allow_unsupported=allow_unsupported)
        )
    except (NotReady, ProcessEnded) as error:
        say(errors, f"mesh-local: {error}")
        lines = last_lines(error.log)
        say(errors, f"the last lines of {error.log}:" if lines else f"{error.log} is empty")
        for line in lines:
            say(errors, f"  {line}")
        raise typer.Exit(1) from None
    except Stopped as error:
        say(errors, f"mesh-local: {error}")
        raise typer.Exit(130) from None
    except MeshLocalError as error:
        for line in str(error).splitlines():
            say(errors, f"mesh-local: {line}")
        raise typer.Exit(1) from None


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
    file = Path(__file__).with_name("two-services") / "mesh.yaml"
    with TemporaryDirectory(prefix="mesh-local-demo-") as folder:
        up(file, once=not keep, state_dir=Path(folder, "state"))


@app.command(epilog=examples("mesh-local check mesh.yaml", "mesh-local check mesh.yaml -o json"))
def check(
    file: Annotated[Path, _MESH_FILE],
    *,
    allow_unsupported: Annotated[bool, _ALLOW_UNSUPPORTED] = False,
    output: Annotated[Form | None, _OUTPUT] = None,
) -> None:
    """Say all that is wrong with FILE and its configuration.

    Nothing is started.
    """
    errors = Console(stderr=True)
    try:
        mesh = load_mesh_file(file)
    except MeshLocalError as error:
        problems = tuple(str(error).splitlines())
        if output is Form.JSON:
            _print_findings(Findings(problems=problems), workloads=0)
        else:
            for line in problems:
                say(errors, f"mesh-local: {line}")
        raise typer.Exit(1) from None
    # Any block will do: whether the configuration is right does not depend on addresses.
    plan = plan_mesh(mesh, Block(number=BLOCKS[0]))
    findings = check_mesh(plan, allow_unsupported=allow_unsupported)
    wrong = (*findings.problems, *findings.unreachable)
    if output is Form.JSON:
        _print_findings(findings, workloads=len(plan.instances))
        raise typer.Exit(1 if wrong else 0)
    for note in findings.notes:
        say(errors, f"note: {note}")
    for warning in findings.warnings:
        say(errors, f"warning: {warning}")
    for line in wrong:
        say(errors, f"mesh-local: {line}")
    if wrong:
        raise typer.Exit(1)
    say(Console(), f"{len(plan.instances)} workloads and their configuration are good")


def _print_findings(findings: Findings, *, workloads: int) -> None:
    typer.echo(json.dumps({"workloads": workloads, **asdict(findings)}, indent=2))


@app.command("version", epilog=examples("mesh-local version", "mesh-local version -o json"))
def show_version(
    *,
    output: Annotated[Form | None, _OUTPUT] = None,
) -> None:
    """Print the version."""
    found = _installed_version()
    typer.echo(json.dumps({"version": found}) if output is Form.JSON else found)


add_documents(app, name=_NAME)


def main() -> None:
    """Run the command and exit."""
    sys.exit(run(app, sys.argv[1:], name=_NAME))
