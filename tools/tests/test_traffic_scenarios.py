"""The table of traffic scenarios names tests that are there."""

import re

from workspace import ROOT

TABLE = ROOT / "docs" / "traffic-scenarios.md"
TESTS = ROOT / "packages" / "discovery" / "tests"


def test_every_test_that_the_table_names_is_there() -> None:
    named = re.findall(r"([\w/.-]+\.py)(?:::(\w+))?", TABLE.read_text())
    missing = []
    for file, name in named:
        path = TESTS / file if (TESTS / file).exists() else ROOT / file
        if not path.exists() or (name and f"def {name}(" not in path.read_text()):
            missing.append(f"{file}::{name}")
    assert len(named) > 100
    assert missing == []
