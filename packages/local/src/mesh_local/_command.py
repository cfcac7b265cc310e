"""The command `mesh-local`."""

import asyncio
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Annotated

import typer
from rich.console import Console

from mesh_local._errors import MeshLocalError, NotReady, ProcessEnded
from mesh_local._up import Stopped, default_state_folder, say
from mesh_local._up import once as run_once
from mesh_local._up import up as run_up
from mesh_local.config._addresses import BLOCKS, Block
from mesh_local.config._mesh_file import load_mesh_file
from mesh_local.config._plan import plan_mesh
from mesh_local.observation._findings import check_mesh
from mesh_local.processes._children import last_lines

app = typer.Typer(
    name="mesh-local",
    help="A whole service mesh on this machine, from one YAML file.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,  # it would take text in brackets for markup
)


_ALLOW_UNSUPPORTED = typer.Option(
    "--allow-unsupported",
    envvar="MESH_DISCOVERY_ALLOW_UNSUPPORTED",
    help="Let pass, without effect, configuration that Istio has and this mesh has not yet.",
)

# With typer's own kind of path, the file would be looked at, however long its mount hangs.
_MESH_FILE = typer.Argument(
    help="The mesh file (YAML).", show_default=False, parser=Path, metavar="FILE"
)


@app.callback()
def _root() -> None:
    """Keep `up` a sub-command, so that there is room for others."""


@app.command()
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


@app.command()
def demo(
    *,
    keep: Annotated[
        bool, typer.Option("--keep", help="Keep it running and show it until Ctrl-C.")
    ] = False,
) -> None:
    """Run two services that talk mutual TLS and check them, from files that come along."""
    file = Path(__file__).with_name("two-services") / "mesh.yaml"
    with TemporaryDirectory(prefix="mesh-local-demo-") as folder:
        up(file, once=not keep, state_dir=Path(folder, "state"))


@app.command()
def check(
    file: Annotated[Path, _MESH_FILE],
    *,
    allow_unsupported: Annotated[bool, _ALLOW_UNSUPPORTED] = False,
) -> None:
    """Say all that is wrong with FILE and its configuration, without starting anything."""
    errors = Console(stderr=True)
    try:
        mesh = load_mesh_file(file)
    except MeshLocalError as error:
        for line in str(error).splitlines():
            say(errors, f"mesh-local: {line}")
        raise typer.Exit(1) from None
    # Any block will do: whether the configuration is right does not depend on addresses.
    plan = plan_mesh(mesh, Block(number=BLOCKS[0]))
    findings = check_mesh(plan, allow_unsupported=allow_unsupported)
    for note in findings.notes:
        say(errors, f"note: {note}")
    for warning in findings.warnings:
        say(errors, f"warning: {warning}")
    wrong = (*findings.problems, *findings.unreachable)
    for line in wrong:
        say(errors, f"mesh-local: {line}")
    if wrong:
        raise typer.Exit(1)
    say(Console(), f"{len(plan.instances)} workloads and their configuration are good")


@app.command("version")
def show_version() -> None:
    """Print the version."""
    try:
        typer.echo(version("mesh-local"))
    except PackageNotFoundError:
        typer.echo("unknown (not installed)")


def main() -> None:
    """Run the command."""
    app()
