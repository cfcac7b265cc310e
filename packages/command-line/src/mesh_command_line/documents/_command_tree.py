"""The commands, their arguments and options, as plain values."""

from __future__ import annotations

from typing import NamedTuple


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
        """The parameters that are given by their place."""
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
