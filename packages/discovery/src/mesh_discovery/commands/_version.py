"""`mesh-discovery version`."""

from typing import Annotated

import typer

from mesh_command_line import Form
from mesh_discovery._version import version as installed_version
from mesh_discovery.commands._options import OUTPUT


def version(*, output: Annotated[Form | None, OUTPUT] = None) -> None:
    """Print the version."""
    import json

    found = installed_version()
    typer.echo(json.dumps({"version": found}) if output is Form.JSON else found)
