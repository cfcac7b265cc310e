"""`mesh-discovery check`: a configuration read and judged without serving it."""

from pathlib import Path
from typing import Annotated

import typer

from mesh_discovery.commands._options import ALLOW_UNSUPPORTED, CONFIG_DIR, MESH_CONFIG, fail


def check(
    config_dir: Annotated[Path, CONFIG_DIR],
    mesh_config: Annotated[Path | None, MESH_CONFIG] = None,
    *,
    allow_unsupported: Annotated[bool, ALLOW_UNSUPPORTED] = False,
) -> None:
    """Read a configuration as the server would, and say all that is wrong with it.

    That includes what the server takes and nothing reaches: it starts with it, and warns.
    """
    from mesh_discovery._check import check_configuration

    checked = check_configuration(
        config_dir, mesh_config=mesh_config, allow_unsupported=allow_unsupported
    )
    for note in checked.notes:
        typer.echo(f"note: {note}", err=True)
    for warning in checked.warnings:
        typer.echo(f"warning: {warning}", err=True)
    if checked.problems or checked.unreachable:
        fail(map(str, (*checked.problems, *checked.unreachable)))
    typer.echo(f"{checked.objects} objects in {checked.files} files are good")
