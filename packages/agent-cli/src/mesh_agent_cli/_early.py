"""Commands that need not wait for the library that reads command lines."""

from __future__ import annotations

from importlib import import_module
from operator import attrgetter

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

EARLY_GROUP = "mesh_agent.early_commands"
"""The entry-point group of such commands: an entry's object is called with the words behind the
command's name, and returns only if they are to be read as usual.
"""


def run_early(words: Sequence[str], commands: Mapping[str, str]) -> None:
    """Run the command that these words begin with, if it is an early one.

    commands: `module:object` by name. Returns if it is none, or cannot be loaded, or leaves its
    words to be read as usual.
    """
    if not words or (place := commands.get(words[0])) is None:
        return
    module, _, name = place.partition(":")
    try:
        start: Callable[[Sequence[str]], object] = attrgetter(name)(import_module(module))
    except Exception:  # noqa: BLE001 - the command as usual tells what is wrong
        return
    start(words[1:])
