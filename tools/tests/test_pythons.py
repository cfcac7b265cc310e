"""Looks for interpreters in directories made for the test."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import pythons


@pytest.fixture(autouse=True)
def forget() -> Iterator[None]:
    pythons.newest_python.cache_clear()
    yield
    pythons.newest_python.cache_clear()


def place(directory: Path, minor: int, script: str) -> Path:
    directory.mkdir(parents=True, exist_ok=True)
    path = directory / f"python3.{minor}"
    path.write_text(f"#!/bin/sh\n{script}\n")
    path.chmod(0o755)
    return path


def test_newest_that_works_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    place(tmp_path, sys.version_info.minor + 1, "exit 0")
    newest = place(tmp_path, sys.version_info.minor + 2, "exit 0")
    place(tmp_path, sys.version_info.minor + 3, "exit 127")
    monkeypatch.setenv("PATH", f"/nowhere:{tmp_path}")
    assert pythons.newest_python() == str(newest)


def test_versions_beside_pyenvs_shims_are_found(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    minor = sys.version_info.minor + 1
    place(tmp_path / "shims", minor, "exit 127")
    real = place(tmp_path / "versions" / f"3.{minor}.0" / "bin", minor, "exit 0")
    monkeypatch.setenv("PATH", str(tmp_path / "shims"))
    assert pythons.newest_python() == str(real)


def test_python_that_runs_is_not_newer_than_itself(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    place(tmp_path, sys.version_info.minor, "exit 0")
    place(tmp_path, sys.version_info.minor - 1, "exit 0")
    monkeypatch.setenv("PATH", str(tmp_path))
    assert pythons.newest_python() is None
