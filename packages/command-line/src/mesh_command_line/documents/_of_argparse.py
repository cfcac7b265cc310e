"""The commands of a parser written with argparse, as plain values."""

from __future__ import annotations

import argparse
from collections.abc import Iterator

from mesh_command_line.documents._command_tree import Command, Parameter, Program

_EXAMPLE = "  "
"""What a line of an epilog begins with that is an example, or goes on with one."""


def program_of_parser(parser: argparse.ArgumentParser) -> Program:
    """Return the sub-commands of a parser, sorted.

    The examples of each are the lines below `Examples:` in its epilog.
    """
    commands = (
        _command(name, each)
        for action in parser._actions
        if isinstance(action, argparse._SubParsersAction)
        for name, each in action.choices.items()
    )
    return Program(parser.prog, parser.description or "", tuple(sorted(commands)))


def _command(name: str, parser: argparse.ArgumentParser) -> Command:
    text = " ".join((parser.description or "").split())
    parameters = tuple(_parameters(parser))
    return Command(
        name, text.partition(". ")[0].rstrip("."), text, parameters, _examples(parser.epilog or "")
    )


def _examples(epilog: str) -> tuple[str, ...]:
    _, _, below = epilog.partition("Examples:\n")
    lines = []
    for line in below.splitlines():
        if not line.startswith(_EXAMPLE):
            break
        lines.append(line.removeprefix(_EXAMPLE))
    return tuple(lines)


def _parameters(parser: argparse.ArgumentParser) -> Iterator[Parameter]:
    for action in parser._actions:
        if isinstance(action, argparse._HelpAction) or action.help == argparse.SUPPRESS:
            continue
        choices = tuple(map(str, action.choices or ()))
        metavar = action.metavar if isinstance(action.metavar, str) else None
        shown = metavar or "|".join(choices) or action.dest.upper()
        yield Parameter(
            tuple(action.option_strings),
            "" if action.nargs == 0 else shown,
            " ".join((action.help or "").split()),
            choices,
            action.required,
        )
