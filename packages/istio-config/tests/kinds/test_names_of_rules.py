"""Rules of all kinds are named alike, so that who knows one kind finds those of another."""

import ast
from collections.abc import Iterator
from pathlib import Path

import istio_config

KINDS = Path(istio_config.__file__).with_name("kinds")
ENDS = ("_mistakes", "_warnings", "_lacks")
NO_RULES = {"below", "_findings", "_nothing"}
"""Functions that hand on what rules find."""


def rules() -> Iterator[tuple[Path, ast.FunctionDef]]:
    """Yield the functions that yield findings, with their files."""
    for file in sorted(KINDS.rglob("*.py")):
        for node in ast.parse(file.read_bytes()).body:
            if (
                isinstance(node, ast.FunctionDef)
                and node.returns is not None
                and ast.unparse(node.returns) == "Iterator[Finding]"
            ):
                yield file, node


def test_a_function_that_yields_findings_says_which_in_its_name() -> None:
    named = [(file.name, each.name) for file, each in rules() if each.name not in NO_RULES]
    assert len(named) > 100
    assert [each for each in named if not each[1].endswith(ENDS)] == []


def test_a_file_is_named_for_its_section_and_not_for_what_it_finds() -> None:
    names = {file.stem for file in KINDS.rglob("_*.py")}
    assert [each for each in names if each.endswith(("_mistakes", "_warnings"))] == []
    for each in names:
        if each.endswith("_rules"):
            assert each.removesuffix("_rules") in names, each
