"""The commands, their arguments and options, as plain values."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from enum import Enum
from types import NoneType
from typing import TYPE_CHECKING, NamedTuple, get_args, get_type_hints

if TYPE_CHECKING:
    import typer


class Parameter(NamedTuple):
    """An option, or an argument: then `names` is empty.

    metavar: what its value is called; empty for a switch. choices: its values, if they are few.
    """

    names: tuple[str, ...]
    metavar: str
    help: str
    choices: tuple[str, ...] = ()
    required: bool = False


class Command(NamedTuple):
    """A sub-command. summary: its first sentence. examples: calls of it."""

    name: str
    summary: str
    description: str
    parameters: tuple[Parameter, ...]
    examples: tuple[str, ...] = ()

    @property
    def options(self) -> tuple[Parameter, ...]:
        """The parameters that have a name."""
        return tuple(each for each in self.parameters if each.names)

    @property
    def arguments(self) -> tuple[Parameter, ...]:
        """The parameters that are told by their place."""
        return tuple(each for each in self.parameters if not each.names)

    @property
    def usage(self) -> str:
        """The words after the command's name."""
        words = ["[OPTIONS]"] if self.options else []
        for each in self.arguments:
            bare = each.metavar.strip("[]")
            words.append(bare if each.required else f"[{bare}]")
        return " ".join(words)


class Program(NamedTuple):
    """The whole command."""

    name: str
    description: str
    commands: tuple[Command, ...]


def program_of(app: typer.Typer, *, name: str) -> Program:
    """Return the commands of an application, sorted, without the hidden ones."""
    commands = [
        _command(each.name or "", each.callback, each.help, each.epilog)
        for each in app.registered_commands
        if each.callback is not None and not each.hidden
    ]
    description = app.info.help if isinstance(app.info.help, str) else ""
    return Program(name, description, tuple(sorted(commands)))


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
        told = " ".join((info.help or "").split())
        required = each.default is inspect.Parameter.empty
        shown = info.metavar or "|".join(choices) or name.removeprefix("as_").upper()
        if isinstance(info, ArgumentInfo):
            yield Parameter((), shown, told, choices, required)
            continue
        # In an annotation, the first of the names stands in the place of the default.
        given = (info.default, *(info.param_decls or ()))
        declared = (part for one in given if isinstance(one, str) for part in one.split("/"))
        names = tuple(one for one in declared if one.startswith("-"))
        switch = kind is bool
        yield Parameter(
            names or (f"--{name.replace('_', '-')}",), "" if switch else shown, told, choices
        )


def _choices(kind: object) -> tuple[str, ...]:
    """Return the values of a type that has few; also of one that may be left out."""
    for one in get_args(kind) or (kind,):
        if one is not NoneType and isinstance(one, type) and issubclass(one, Enum):
            return tuple(str(each.value) for each in one)
    return ()
