"""Commands of other packages, found by entry point and loaded only when they are called."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING

from mesh_agent_cli._errors import CliError

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

    import typer

GROUP = "mesh_agent.commands"


def find_plugins() -> Mapping[str, EntryPoint]:
    """Return the installed entries, by name."""
    from importlib.metadata import entry_points

    return {entry.name: entry for entry in sorted(entry_points(group=GROUP))}


def add_plugins(app: typer.Typer, plugins: Mapping[str, EntryPoint], names: Iterable[str]) -> None:
    """Add the commands of the entries named.

    An entry that can't be loaded becomes a command that fails with the reason, so that the other
    commands go on working.
    """
    for name in names:
        before = len(app.registered_commands), len(app.registered_groups)
        try:
            register: Callable[[typer.Typer], object] = plugins[name].load()
            register(app)
        except Exception as error:  # noqa: BLE001 - another package's code may raise anything
            del app.registered_commands[before[0] :], app.registered_groups[before[1] :]
            _add_broken(app, plugins[name], error)


def _add_broken(app: typer.Typer, plugin: EntryPoint, error: Exception) -> None:
    origin = plugin.dist.name if plugin.dist is not None else "an unknown package"
    said = " ".join(str(error).split()) or "no details"
    sentence = (
        f"command {plugin.name!r} from {origin} cannot be loaded ({plugin.value}): "
        f"{type(error).__name__}: {said}"
    )

    def broken() -> None:
        raise CliError(sentence)

    settings = {"ignore_unknown_options": True, "allow_extra_args": True, "help_option_names": []}
    app.command(plugin.name, help=f"Unavailable: {sentence}.", context_settings=settings)(broken)
