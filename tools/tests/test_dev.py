"""Calls the newcomer's entry the way a newcomer does, up to where it would use the network."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

import dev
from workspace import ROOT


def call(*arguments: str, root: Path = ROOT) -> subprocess.CompletedProcess[str]:
    program = root / "tools" / "dev.py"
    return subprocess.run(
        [sys.executable, program, *arguments], capture_output=True, text=True, check=False
    )


@pytest.fixture
def clone(tmp_path: Path) -> Path:
    """What dev.py reads of the repository, with nothing made yet."""
    for name in (
        "tools/dev.py",
        "tools/dev-requirements.txt",
        "noxfile.py",
        "packages/ca/pyproject.toml",
    ):
        target = tmp_path / name
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes((ROOT / name).read_bytes())
    return tmp_path


def one_sentence(text: str) -> str:
    (line,) = text.splitlines()
    assert line.startswith("dev.py: ")
    return line


def test_without_a_session_the_sessions_are_listed() -> None:
    done = call()
    assert done.returncode == 2
    for name in ("tests", "unit [PACKAGE]", "alone [PACKAGE]", "boundaries", "types", "lint"):
        assert f"\n  {name} " in done.stdout


def test_unknown_session_is_named_beside_those_that_exist() -> None:
    done = call("tset")
    assert done.returncode == 2
    message = one_sentence(done.stderr)
    assert "no session 'tset'" in message
    assert "tests, unit, " in message


@pytest.mark.parametrize("arguments", [("unit", "tset"), ("unit(tset)",)])
def test_unknown_package_is_named_beside_those_that_exist(arguments: tuple[str, ...]) -> None:
    done = call(*arguments)
    assert done.returncode == 2
    message = one_sentence(done.stderr)
    assert "no package 'tset'" in message
    assert "certclient" in message


@pytest.mark.parametrize(
    ("arguments", "session", "rest"),
    [
        (["tests"], "tests", []),
        (["tests", "-x", "packages/ca"], "tests", ["-x", "packages/ca"]),
        (["unit", "ca"], "unit(ca)", []),
        (["unit", "ca", "-k", "csr"], "unit(ca)", ["-k", "csr"]),
        (["unit(ca)", "-k", "csr"], "unit(ca)", ["-k", "csr"]),
        (["unit", "-x"], "unit", ["-x"]),
        (["chaos", "--", "--seed", "7"], "chaos", ["--seed", "7"]),
        (["unit", "ca", "--", "-x"], "unit(ca)", ["-x"]),
    ],
)
def test_arguments_name_a_session_a_package_and_the_rest(
    arguments: list[str], session: str, rest: list[str]
) -> None:
    assert dev.parse(arguments, dev.read_sessions(), ["ca", "local"]) == (session, rest)


def test_session_for_the_whole_repository_takes_no_package() -> None:
    with pytest.raises(dev.UsageError, match="'lint' is for the whole repository"):
        dev.parse(["lint(ca)"], dev.read_sessions(), ["ca"])


@pytest.mark.slow
def test_unreachable_index_is_said_in_one_sentence(
    clone: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PIP_INDEX_URL", "http://127.0.0.1:1/simple")
    monkeypatch.setenv("PIP_RETRIES", "0")
    done = call("lint", root=clone)
    assert done.returncode == 2
    started, failed = done.stderr.splitlines()
    assert started == "dev.py: making .dev/env"
    assert "cannot install nox" in failed
    assert "the package index cannot be reached" in failed
    # What was half made is not taken for whole: the next call tries again.
    assert call("lint", root=clone).stderr == done.stderr


def test_with_an_old_python_the_sentence_names_the_one_needed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(sys, "version_info", (3, 9, 2))
    with pytest.raises(dev.UsageError, match=r"this is Python 3\.9: .* Python 3\.11 or newer"):
        dev.check_python()
