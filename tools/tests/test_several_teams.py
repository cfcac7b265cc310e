"""The page on several teams has each attack that is tried, and names tests that are there."""

import ast
import re

from workspace import ROOT

GUIDE = ROOT / "docs" / "guides" / "several-teams.md"
TESTS = ROOT / "packages" / "discovery" / "tests"


def attacks() -> dict[str, bool]:
    """Return the attacks that are tried, and whether others are touched by Istio's rules."""
    tree = ast.parse((TESTS / "tenants" / "test_attacks.py").read_text())
    (table,) = (
        node.value
        for node in tree.body
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "ATTACKS"
    )
    assert isinstance(table, ast.Dict)
    found: dict[str, bool] = {}
    for key, call in zip(table.keys, table.values, strict=True):
        assert isinstance(key, ast.Constant)
        assert isinstance(call, ast.Call)
        found[str(key.value)] = bool(ast.literal_eval(call.args[1]))
    return found


def test_each_attack_is_a_row_and_says_whether_others_are_touched() -> None:
    part = GUIDE.read_text().partition("## What a tenant does")[2].partition("## Settings")[0]
    rows = re.findall(r"^\| ([^|]+) \| (yes|no)\b[^|]*\| [^|]+ \|$", part, re.MULTILINE)

    assert {name: answer == "yes" for name, answer in rows} == attacks()


def test_every_test_that_the_page_names_is_there() -> None:
    named = re.findall(r"`([\w/.-]+\.py)(?:::(\w+))?", GUIDE.read_text())
    missing = [
        f"{file}::{name}"
        for file, name in named
        if not (path := ROOT / file if file.startswith("packages/") else TESTS / file).is_file()
        or (name and f"def {name}(" not in path.read_text())
    ]
    assert len(named) > 10
    assert missing == []
