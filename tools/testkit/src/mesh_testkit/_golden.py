"""Golden files: rendered output that is reviewed like code.

`golden("name.json", value)` compares a value with `golden/name.json` beside the test. Text and
bytes are compared as they are; anything else is rendered as sorted, indented JSON, so that a
difference reads well. `pytest --update-golden` rewrites the files instead of comparing.
"""

from __future__ import annotations

import difflib
import json
from collections.abc import Callable
from pathlib import Path

import pytest

Golden = Callable[[str, object], None]


def compare(path: Path, value: object, *, update: bool) -> None:
    """Fail unless the file holds the value; with update, make it hold the value."""
    actual = _rendered(value)
    if update:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(actual)
        return
    if not path.is_file():
        pytest.fail(
            f"golden file {path} does not exist: run pytest --update-golden and review it",
            pytrace=False,
        )
    expected = path.read_bytes()
    if actual != expected:
        pytest.fail(
            f"{path} differs (run pytest --update-golden if the new output is right):\n"
            + _difference(expected, actual),
            pytrace=False,
        )


def _rendered(value: object) -> bytes:
    if isinstance(value, bytes):
        return value
    if isinstance(value, str):
        return value.encode()
    return (json.dumps(value, indent=2, sort_keys=True, ensure_ascii=False) + "\n").encode()


def _difference(expected: bytes, actual: bytes) -> str:
    try:
        lines = difflib.unified_diff(
            expected.decode().splitlines(),
            actual.decode().splitlines(),
            "golden",
            "actual",
            lineterm="",
        )
    except UnicodeDecodeError:
        return f"{len(expected)} bytes expected, {len(actual)} bytes produced"
    return "\n".join(lines) or "only the last newline differs"
