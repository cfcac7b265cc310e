"""The tests that README.md beside this file names exist, and each scenario has one."""

from __future__ import annotations

import re
from pathlib import Path

_TESTS = Path(__file__).parent
_ROOT = _TESTS.parents[2]
_NAMED = re.compile(r"`([\w/.-]+\.py)::(\w+)`")
_SCENARIOS = [*range(19, 32), 81]


def _file(name: str) -> Path:
    return (_ROOT if name.startswith("packages/") else _TESTS) / name


def test_the_tests_that_are_named_exist() -> None:
    named = _NAMED.findall((_TESTS / "README.md").read_text())
    missing = [
        f"{name}::{test}"
        for name, test in named
        if not _file(name).is_file() or f"def {test}(" not in _file(name).read_text()
    ]
    assert not missing
    assert len(named) >= len(_SCENARIOS)


def test_each_scenario_has_a_test() -> None:
    rows = [
        line
        for line in (_TESTS / "README.md").read_text().splitlines()
        if re.match(r"\| \d+ \|", line)
    ]
    assert sorted({int(row.split("|")[1]) for row in rows}) == _SCENARIOS
    assert all(_NAMED.search(row) for row in rows)
