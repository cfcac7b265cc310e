"""The commands of an application written with typer, as plain values."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from enum import Enum
from types import NoneType
from typing import TYPE_CHECKING, get_args, get_type_hints

from mesh_command_line.documents._command_tree import Command, Parameter, Program

if TYPE_CHECKING:
    import typer


def program_of(app: typer.Typer, *, name: str) -> Program:
    """Return the commands of an application, sorted, without the hidden ones."""
    commands = [
        _command(each.name or _name_of(each.callback), each.callback, each.help, each.epilog)
        for each in app.registered_commands
        if each.callback is not None and not each.hidden
    ]
    description = app.info.help if isinstance(app.info.help, str) else ""
    return Program(name, description, tuple(sorted(commands)))


def _name_of(function: Callable[..., object]) -> str:
    """Return the name that typer gives the command of a function."""
    return function.__name__.lower().replace("_", "-")


def _command(
    name: str, function: Callable[..., object], given: str | None, epilog: str | None
) -> Command:
    text = " ".join((given or inspect.getdoc(function) or "").split())
    summary = text.partition(". ")[0].rstrip(".")
    lines = (epilog or "").splitlines()
    calls = tuple(line.strip() for line in lines if line.startswith("  "))
    return Command(name, summary, text, tuple(_parameters(function)), calls)


def _parameters(function: Callable[..., object]) -> Iterator[Parameter]:
    from typer.models import ArgumentInfo, OptionInfo

    hints = get_type_hints(function, include_extras=True)
    for name, each in inspect.signature(function).parameters.items():
        kind, *about = get_args(hints.get(name)) or (None,)
        info = next((one for one in about if isinstance(one, OptionInfo | ArgumentInfo)), None)
        if info is None or info.hidden:
            continue
        choices = _choices(kind)
        help_text = " ".join((info.help or "").split())
        required = each.default is inspect.Parameter.empty
        shown = info.metavar or "|".join(choices) or name.removeprefix("as_").upper()
        if isinstance(info, ArgumentInfo):
            yield Parameter((), shown, help_text, choices, required)
            continue
        # In an annotation, the first of the names stands in the place of the default.
        given = (info.default, *(info.param_decls or ()))
        declared = (part for one in given if isinstance(one, str) for part in one.split("/"))
        names = tuple(one for one in declared if one.startswith("-"))
        switch = kind is bool
        yield Parameter(
            names or (f"--{name.replace('_', '-')}",), "" if switch else shown, help_text, choices
        )


def _choices(kind: object) -> tuple[str, ...]:
    """Return the values of a type that has few; also of one that may be left out."""
    for one in get_args(kind) or (kind,):
        if one is not NoneType and isinstance(one, type) and issubclass(one, Enum):
            return tuple(str(each.value) for each in one)
    return ()
