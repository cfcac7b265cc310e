"""Alternatives differ: two named tuples of equally many fields are equal if their fields are.

A cache, a set or a comparison takes the one for the other then, whatever their classes.
"""

from __future__ import annotations

import ast
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

from workspace import ROOT

Sizes = Mapping[str, int]


def named_tuples(tree: ast.Module) -> dict[str, int]:
    """Return how many fields each named tuple of a module has."""
    return {
        each.name: sum(isinstance(line, ast.AnnAssign) for line in each.body)
        for each in ast.walk(tree)
        if isinstance(each, ast.ClassDef) and "NamedTuple" in map(ast.unparse, each.bases)
    }


def unions(tree: ast.Module) -> Iterator[tuple[int, list[str]]]:
    """Yield the names of each union, with its line."""
    for node in ast.walk(tree):
        if isinstance(node, ast.BinOp) and isinstance(node.op, ast.BitOr):
            yield node.lineno, [each.strip(" \"'") for each in ast.unparse(node).split("|")]
        elif isinstance(node, ast.Subscript) and ast.unparse(node.value).endswith("Union"):
            yield node.lineno, [each.strip(" \"'()") for each in ast.unparse(node.slice).split(",")]


def mistakes(modules: Mapping[str, ast.Module]) -> Iterator[str]:
    """Yield the unions of named tuples of one size. modules: by import name."""
    sizes = {name: named_tuples(tree) for name, tree in modules.items()}
    for module, tree in modules.items():
        known = {**imported(tree, sizes), **sizes[module]}
        for line, names in unions(tree):
            alike = Counter(known[name] for name in set(names) if name in known)
            if any(count > 1 for count in alike.values()):
                yield f"{module}, line {line}: {' | '.join(names)}"


def imported(tree: ast.Module, sizes: Mapping[str, Sizes]) -> dict[str, int]:
    """Return the named tuples that a module has from others, by the names that they have there."""
    found = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom):
            there = sizes.get(node.module or "", {})
            for alias in node.names:
                if alias.name in there:
                    found[alias.asname or alias.name] = there[alias.name]
    return found


def parsed(folders: Iterable[Path]) -> dict[str, ast.Module]:
    return {
        ".".join(file.relative_to(folder).with_suffix("").parts): ast.parse(file.read_text())
        for folder in folders
        for file in folder.rglob("*.py")
    }


def test_a_union_has_no_two_named_tuples_of_as_many_fields() -> None:
    assert list(mistakes(parsed(ROOT.glob("packages/*/src")))) == []


def test_such_a_union_is_found_wherever_its_classes_are() -> None:
    one = ast.parse("class Text(NamedTuple):\n    text: str\n")
    other = ast.parse(
        "from one import Text as Line\n"
        "class Json(NamedTuple):\n    fields: str\n"
        "class Two(NamedTuple):\n    a: str\n    b: str\n"
        "good: Line | Two | None\n"
        "bad: dict[str, 'Line' | Json]\n"
    )
    assert list(mistakes({"one": one, "other": other})) == ["other, line 8: Line | Json"]
