"""The command line `mesh-discovery`, put together of its subcommands."""

import typer

from mesh_discovery._version import version as installed_version
from mesh_discovery.commands._authority import replace_root, revoke
from mesh_discovery.commands._check import check
from mesh_discovery.commands._discovery import discovery
from mesh_discovery.commands._status import status
from mesh_discovery.commands._token import token
from mesh_discovery.commands._wait import wait

app = typer.Typer(
    name="mesh-discovery",
    help="A control plane: Istio YAML in, Envoy configuration and certificates out.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,  # which would take [env ROOT_CA_DIR] in a help text for its own
)


@app.command()
def version() -> None:
    """Print the version."""
    typer.echo(installed_version())


for _command in (check, status, wait, token, discovery, replace_root, revoke):
    app.command()(_command)


def main() -> None:
    """Run the command line."""
    app()
