"""The entry point: loads what the command needs, runs it, and prints errors as sentences."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING

from mesh_agent_cli._errors import CliError

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

NAME = "mesh-agent"


def main(
    arguments: Sequence[str] | None = None,
    *,
    plugins: Mapping[str, EntryPoint] | Callable[[], Mapping[str, EntryPoint]] | None = None,
    early: Mapping[str, str] | None = None,
) -> int:
    """Run `mesh-agent` and return its exit status: 0, 1 for a failure, 2 for a wrong call.

    arguments: without the program's name; None takes the process's own.
    plugins: entries of the group by name, or a function that finds them; None looks the installed
    ones up. early: early commands, `module:object` by name; None looks them up.
    """
    from mesh_agent_cli._early import EARLY_GROUP, run_early
    from mesh_agent_cli._installed import entries
    from mesh_agent_cli._root_flags import place_root_flags

    given, useless = place_root_flags(sys.argv[1:] if arguments is None else arguments)
    if useless:
        _say(f"{', '.join(useless)}: without effect, flags of the agent's log count for proxy")
    run_early(given, entries(EARLY_GROUP) if early is None else early)
    from mesh_agent_cli._app import build  # brings the library that reads command lines
    from mesh_agent_cli._plugins import find_plugins

    app = build(
        wanted=next((word for word in given if not word.startswith("-")), None),
        find_plugins=_finder(find_plugins if plugins is None else plugins),
    )
    try:
        result = app(given or ["--help"], prog_name=NAME, standalone_mode=False, obj=app)
        sys.stdout.flush()
    except CliError as error:
        return _failed(str(error), error.exit_code)
    except KeyboardInterrupt:
        return 130
    except BrokenPipeError:
        return _reader_gone()
    except Exception as error:
        import typer

        # Every error of a wrong call has the parent that BadParameter has; typer exports no name
        # for it.
        if not isinstance(error, (typer.Abort, *typer.BadParameter.__bases__)):
            raise
        return _wrong_call(error)
    return result if isinstance(result, int) else 0


def _finder(
    plugins: Mapping[str, EntryPoint] | Callable[[], Mapping[str, EntryPoint]],
) -> Callable[[], Mapping[str, EntryPoint]]:
    return plugins if callable(plugins) else lambda: plugins


def _reader_gone() -> int:
    """Return the exit status; from here on nothing is written."""
    with suppress(OSError, ValueError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    return 1


def _wrong_call(error: Exception) -> int:
    context = getattr(error, "ctx", None)
    path = context.command_path if context is not None else NAME
    describe = getattr(error, "format_message", None)
    said = " ".join((describe() if describe is not None else "aborted").split())
    return _failed(f"{said.rstrip('.')} (see {path} --help)", 2)


def _failed(sentence: str, exit_code: int) -> int:
    _say(sentence)
    return exit_code


def _say(sentence: str) -> None:
    print(f"{NAME}: {sentence}", file=sys.stderr)  # noqa: T201 - this is what a command does
