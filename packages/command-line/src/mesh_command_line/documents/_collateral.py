"""Chooses among the documents, by the names of their files."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from mesh_command_line.documents._command_tree import Program
from mesh_command_line.documents._completion import Shell, completion_script
from mesh_command_line.documents._manual import man_pages
from mesh_command_line.documents._manual import markdown as markdown_page


def collateral(
    program: Program, *, man: bool, markdown: bool, shells: Iterable[Shell]
) -> Mapping[str, str]:
    """Return the texts that are wanted."""
    pages: dict[str, str] = {}
    if markdown:
        pages[f"{program.name}.md"] = markdown_page(program)
    if man:
        pages |= man_pages(program)
    names = {
        Shell.BASH: f"{program.name}.bash",
        Shell.ZSH: f"_{program.name}",
        Shell.FISH: f"{program.name}.fish",
    }
    for shell in shells:
        pages[names[shell]] = completion_script(program, shell)
    return pages
