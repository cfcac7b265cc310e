"""The entry point: loads what the command needs, runs it, and prints errors as sentences."""

from __future__ import annotations

import sys

# `typing` takes longer to load than all that an early command does.
TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from importlib.metadata import EntryPoint

NAME = "mesh-agent"
_INTERRUPTED = 130
"""The exit status of a shell's command that Ctrl-C ended."""


def main(
    arguments: Sequence[str] | None = None,
    *,
    plugins: Mapping[str, EntryPoint] | Callable[[], Mapping[str, EntryPoint]] | None = None,
    early: Mapping[str, str] | None = None,
) -> int:
    """Run `mesh-agent` and return its exit status: 0, 1 for a failure, 2 for a wrong call.

    130 after Ctrl-C, also while its modules are loaded.

    arguments: without the program's name; None takes the process's own.
    plugins: entries of the group by name, or a function that finds them; None looks the installed
    ones up. early: early commands, `module:object` by name; None looks them up.
    """
    try:
        return _run(sys.argv[1:] if arguments is None else arguments, plugins, early)
    except KeyboardInterrupt:
        return _INTERRUPTED


def _run(
    arguments: Sequence[str],
    plugins: Mapping[str, EntryPoint] | Callable[[], Mapping[str, EntryPoint]] | None,
    early: Mapping[str, str] | None,
) -> int:
    from mesh_agent_cli._early import EARLY_GROUP, run_early
    from mesh_agent_cli._installed import entries
    from mesh_agent_cli._root_flags import place_root_flags

    given, useless = place_root_flags(arguments)
    if useless:
        from mesh_command_line import say

        say(
            f"{', '.join(useless)}: without effect, flags of the agent's log count for proxy",
            name=NAME,
        )
    run_early(given, entries(EARLY_GROUP) if early is None else early)
    from mesh_agent_cli._app import build  # brings the library that reads command lines
    from mesh_agent_cli._plugins import find_plugins
    from mesh_command_line.typer_application import run

    app = build(
        wanted=next((word for word in given if not word.startswith("-")), None),
        find_plugins=_finder(find_plugins if plugins is None else plugins),
    )
    return run(app, given, name=NAME)


def _finder(
    plugins: Mapping[str, EntryPoint] | Callable[[], Mapping[str, EntryPoint]],
) -> Callable[[], Mapping[str, EntryPoint]]:
    return plugins if callable(plugins) else lambda: plugins
