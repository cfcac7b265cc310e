"""Golden files: rendered output that is reviewed like code.

`golden("name.json", value)` compares a value with `golden/name.json` beside the test. Text and
bytes are compared as they are; anything else is rendered as sorted, indented JSON, so that a
difference reads well. `pytest --update-golden` rewrites the files instead of comparing.

Of values that are much alike, one has a file with all of it, and the files of the others hold how
they differ from that one: `golden("router.json", router, base=sidecar)`, see `differences`.
"""

from __future__ import annotations

import difflib
import json
from pathlib import Path
from typing import Protocol

import pytest

from mesh_testkit._differences import Json, differences, with_differences


class Golden(Protocol):
    """The type of the fixture `golden`."""

    def __call__(self, name: str, value: object, *, base: object = None) -> None:
        """Fail unless `golden/NAME` holds the value, or how it differs from `base`."""


def compare(path: Path, value: object, *, update: bool, base: object = None) -> None:
    """Fail unless the file holds the value; with update, make it hold the value.

    base: a value that another golden file holds; this one holds the differences alone.
    """
    actual = _rendered(value if base is None else _differences(base, value))
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


def _differences(base: object, value: object) -> object:
    was, now = _as_json(base), _as_json(value)
    found = differences(was, now)
    if with_differences(was, found) != now:
        raise AssertionError("the differences leave something out")
    return found.as_dict()


def _as_json(value: object) -> Json:
    read: Json = json.loads(json.dumps(value))
    return read


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
