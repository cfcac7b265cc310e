"""The `mesh-agent` command: asks a running agent, and carries the commands of other packages.

A package adds commands through the entry-point group `mesh_agent.commands`: an entry's name is a
command's name, its object a callable that is given the `typer.Typer` application to add to. The
group `mesh_agent.early_commands` has commands that start before that library is loaded.
Importing this package loads nothing heavy.
"""

from mesh_agent_cli._early import EARLY_GROUP
from mesh_agent_cli._errors import CliError
from mesh_agent_cli._installed import installed_version
from mesh_agent_cli._main import main
from mesh_agent_cli._pages import fetch_page
from mesh_agent_cli._plugins import GROUP
from mesh_agent_cli.screens._terminal import Screen, screen

__all__ = [
    # run
    "main",
    # extend
    "EARLY_GROUP",
    "GROUP",
    "Screen",
    "fetch_page",
    "installed_version",
    "screen",
    # errors
    "CliError",
]
