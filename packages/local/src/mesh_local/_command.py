"""The command `mesh-local`."""

import asyncio
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from mesh_local._children import last_lines
from mesh_local._errors import MeshLocalError, NotReady, ProcessEnded
from mesh_local._mesh_file import load_mesh_file
from mesh_local._up import Stopped, default_state_folder, say
from mesh_local._up import once as run_once
from mesh_local._up import up as run_up

app = typer.Typer(
    name="mesh-local",
    help="A whole service mesh on this machine, from one YAML file.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)


@app.callback()
def _root() -> None:
    """Keep `up` a sub-command, so that there is room for others."""


@app.command()
def up(
    file: Annotated[Path, typer.Argument(help="The mesh file (YAML).", show_default=False)],
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
        ),
    ] = None,
) -> None:
    """Start the mesh in FILE and show it until Ctrl-C."""
    errors = Console(stderr=True)
    try:
        mesh = load_mesh_file(file)
        folder = default_state_folder(file) if state_dir is None else state_dir
        if once:
            passed = asyncio.run(run_once(mesh, folder=folder, console=Console()))
            raise typer.Exit(0 if passed else 1)
        asyncio.run(run_up(mesh, folder=folder, console=Console()))
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
