"""The `mesh-agent` command: asks a running agent, and carries the commands of other packages.

A package adds commands through the entry-point group `mesh_agent.commands`: an entry's name is a
command's name, its object a callable that is given the `typer.Typer` application to add to. The
group `mesh_agent.early_commands` has commands that start before that library is loaded.
Modules are loaded when they are first used: `main` catches Ctrl-C before anything takes time.
"""

from importlib import import_module

from mesh_agent_cli._main import main

# `typing` takes longer to load than all that an early command does.
TYPE_CHECKING = False
if TYPE_CHECKING:
    from mesh_agent_cli._early import EARLY_GROUP
    from mesh_agent_cli._errors import CliError
    from mesh_agent_cli._installed import installed_version
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

_LOADED_WHEN_USED = {
    "CliError": "_errors",
    "EARLY_GROUP": "_early",
    "GROUP": "_plugins",
    "Screen": "screens._terminal",
    "fetch_page": "_pages",
    "installed_version": "_installed",
    "screen": "screens._terminal",
}

if not TYPE_CHECKING:  # a type checker would take any name for one of ours

    def __getattr__(name: str) -> object:
        if (home := _LOADED_WHEN_USED.get(name)) is None:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        value = globals()[name] = getattr(import_module(f"{__name__}.{home}"), name)
        return value
