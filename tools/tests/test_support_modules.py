"""The modules that tests share: all tests run in one process, so a name belongs to one package."""

from __future__ import annotations

from collections import defaultdict
from pathlib import Path

from workspace import ROOT


def test_a_name_of_a_support_module_is_that_of_one_package() -> None:
    homes: defaultdict[str, list[str]] = defaultdict(list)
    for folder in (*ROOT.glob("packages/*/tests/support"), ROOT / "tests-e2e" / "support"):
        for entry in folder.iterdir():
            if entry.suffix == ".py" or (entry / "__init__.py").is_file():
                homes[Path(entry).stem].append(str(folder.relative_to(ROOT)))
    assert {name: where for name, where in homes.items() if len(where) > 1} == {}
