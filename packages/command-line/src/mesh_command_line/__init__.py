"""The manner of a command: exit statuses, errors in one sentence, completion, manual pages.

Commands written with typer have `mesh_command_line.typer_application`, which needs the extra
`typer`. `exit_status`, `program_of_parser` and the documents serve commands written with argparse.
Importing this package loads nothing heavy.
"""

from importlib import import_module
from typing import TYPE_CHECKING

from mesh_command_line._errors import CommandError
from mesh_command_line._examples import examples
from mesh_command_line._running import exit_status, say
from mesh_command_line._span import span

if TYPE_CHECKING:
    from mesh_command_line._form import Form
    from mesh_command_line._sorted_flags import FlagValueError, sort_flags
    from mesh_command_line.documents._collateral import collateral
    from mesh_command_line.documents._command_tree import Command, Parameter, Program
    from mesh_command_line.documents._completion import Shell, completion_script
    from mesh_command_line.documents._manual import man_pages, markdown, write_pages
    from mesh_command_line.documents._of_argparse import program_of_parser
    from mesh_command_line.documents._of_typer import program_of

__all__ = [
    # run
    "exit_status",
    "say",
    "span",
    # options and help of commands written with typer
    "Form",
    "examples",
    # flags of other programs
    "FlagValueError",
    "sort_flags",
    # what commands there are
    "Command",
    "Parameter",
    "Program",
    "program_of",
    "program_of_parser",
    # documents
    "Shell",
    "collateral",
    "completion_script",
    "man_pages",
    "markdown",
    "write_pages",
    # errors
    "CommandError",
]

_LOADED_WHEN_USED = {
    "Command": "documents._command_tree",
    "FlagValueError": "_sorted_flags",
    "Form": "_form",
    "Parameter": "documents._command_tree",
    "Program": "documents._command_tree",
    "Shell": "documents._completion",
    "collateral": "documents._collateral",
    "completion_script": "documents._completion",
    "man_pages": "documents._manual",
    "markdown": "documents._manual",
    "program_of": "documents._of_typer",
    "program_of_parser": "documents._of_argparse",
    "sort_flags": "_sorted_flags",
    "write_pages": "documents._manual",
}

if not TYPE_CHECKING:  # a type checker would accept any name

    def __getattr__(name: str) -> object:
        if (home := _LOADED_WHEN_USED.get(name)) is None:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        value = globals()[name] = getattr(import_module(f"{__name__}.{home}"), name)
        return value
