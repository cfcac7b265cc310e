"""Installed packages are read as `importlib.metadata` reads them."""

import subprocess
import sys
from importlib.metadata import entry_points, version
from pathlib import Path

import pytest

from mesh_agent_cli import EARLY_GROUP, installed_version
from mesh_agent_cli._early import run_early
from mesh_agent_cli._installed import entries

STARTED: list[object] = []


def metadata(folder: Path, name: str, text: str | None) -> None:
    place = folder / f"{name}.dist-info"
    place.mkdir(parents=True)
    if text is not None:
        (place / "entry_points.txt").write_text(text)


def test_entries_are_those_that_the_standard_library_finds() -> None:
    for group in ("console_scripts", EARLY_GROUP):
        assert set(entries(group)) == set(entry_points(group=group).names)


def test_entries_of_other_groups_and_comments_are_none(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    metadata(
        tmp_path,
        "one-1.0",
        "[other]\na = b:c\n\n[wanted]\n# no = entry:x\n; nor = this:x\nfirst=one:start\n"
        "second = two.sub : start.now \n[last]\nz = y:x\n",
    )
    metadata(tmp_path, "two-1.0", None)
    (tmp_path / "two-1.0.dist-info/entry_points.txt").write_bytes(b"[wanted]\nbad = \xff\n")
    metadata(tmp_path / "later", "three-1.0", "[wanted]\nfirst = three:start\n")
    places = [str(tmp_path), str(tmp_path / "no such"), str(tmp_path / "later")]
    monkeypatch.setattr(sys, "path", places)
    assert entries("wanted") == {"first": "one:start", "second": "two.sub : start.now"}


def test_the_version_is_that_of_the_metadata(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert installed_version("mesh-agent-cli") == version("mesh-agent-cli")
    metadata(tmp_path, "some_tool-3.2.1rc1", None)
    metadata(tmp_path, "some_tool_more-4.0", None)
    monkeypatch.syspath_prepend(tmp_path)
    assert installed_version("some-tool") == "3.2.1rc1"
    assert installed_version("no-such-package-at-all") == "unknown"


def start(words: object) -> None:
    STARTED.append(words)


def test_an_early_command_gets_the_words_behind_its_name() -> None:
    STARTED.clear()
    here = {
        "go": f"{__name__}:start",
        "gone": "no_such_module:start",
        "bad": f"{__name__}:nothing.there",
    }
    for words in (["go", "-x", "y"], ["gone"], ["bad"], ["other"], []):
        run_early(words, here)
    assert STARTED == [["-x", "y"]]


def test_looking_for_early_commands_loads_no_library_for_metadata() -> None:
    program = (
        "import sys; from mesh_agent_cli._installed import entries, installed_version\n"
        f"entries({EARLY_GROUP!r}); installed_version('mesh-agent-cli')\n"
        "print('importlib.metadata' in sys.modules)"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], check=True, capture_output=True, text=True
    )
    assert done.stdout.strip() == "False"
