"""The pytest plugin where no mesh runs: what it costs, and which mesh file it takes."""

import subprocess
import sys
from pathlib import Path

import pytest

from mesh_testkit import plain_environment

PLUGIN = "mesh_local.pytest_plugin"
LIGHT = f"""
import sys, pytest
before = set(sys.modules)
import {PLUGIN}
print(*sorted(set(sys.modules) - before))
"""


def run(folder: Path, *options: str) -> str:
    """Run pytest in a folder that has nothing of this repository's settings."""
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-p", PLUGIN, "-p", "no:cacheprovider", *options],
        cwd=folder,
        env=plain_environment(),
        capture_output=True,
        text=True,
        check=False,
    )
    return done.stdout


def write(folder: Path, **files: str) -> None:
    (folder / "pytest.ini").write_text("[pytest]\n")
    for name, text in files.items():
        path = folder / name.replace("__", "/")
        path.parent.mkdir(exist_ok=True)
        path.with_suffix(".yaml" if path.name == "mesh" else ".py").write_text(text)


def test_it_loads_nothing_but_itself() -> None:
    done = subprocess.run([sys.executable, "-c", LIGHT], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["mesh_local", PLUGIN]


def test_a_session_without_a_mesh_loads_nothing_either(tmp_path: Path) -> None:
    loaded = "[m for m in sys.modules if m.startswith('mesh_local') or m == 'msgspec']"
    write(
        tmp_path,
        test_it=f"import sys\ndef test_a():\n    assert {loaded} == {['mesh_local', PLUGIN]}\n",
    )
    assert "1 passed" in run(tmp_path, "-p", "no:mesh_testkit.plugin")


SENTENCES = {
    "none": "there is no mesh.yaml beside the tests nor in",
    "several": "name one with the option mesh_file, or override the fixture mesh_description",
    "wrong": "mesh.yaml:1: workloads: must name at least one workload",
    "not there": "other.yaml:1: can't be read: No such file or directory",
}


@pytest.mark.parametrize("case", SENTENCES)
def test_a_mesh_that_can_t_be_is_reported_in_each_test_as_a_sentence(
    tmp_path: Path, case: str
) -> None:
    test = "def test_a(mesh): pass\ndef test_b(mesh): pass\n"
    files = {"a__test_a": test}
    if case == "several":
        files |= {"a__mesh": "{}", "b__mesh": "{}", "b__test_b": test}
    if case == "wrong":
        files |= {"mesh": "workloads: []\n"}
    write(tmp_path, **files)
    options = ("--mesh-file", "other.yaml") if case == "not there" else ()
    output = run(tmp_path, *options)
    count = 4 if case == "several" else 2
    assert f"{count} errors" in output
    assert output.count(SENTENCES[case]) == count, output
    assert "Traceback" not in output
    assert "pytest_plugin.py" not in output


@pytest.mark.parametrize("how", ["ini", "option", "fixture", "nearest"])
def test_a_mesh_file_is_found(tmp_path: Path, how: str) -> None:
    wrong = "workloads: [{name: X}]\n"  # reported with its name, without anything being started
    at = {"nearest": "a__mesh", "ini": "b__mesh", "option": "b__mesh", "fixture": "b__mesh"}[how]
    write(
        tmp_path, **{"a__test_a": "def test_a(mesh): pass\n", "mesh": "workloads: []\n", at: wrong}
    )
    if how == "ini":
        (tmp_path / "pytest.ini").write_text("[pytest]\nmesh_file = b/mesh.yaml\n")
    if how == "fixture":
        (tmp_path / "conftest.py").write_text(
            "import pytest\n@pytest.fixture(scope='session')\n"
            "def mesh_description(): return 'b/mesh.yaml'\n"
        )
    output = run(tmp_path, *(("--mesh-file", "b/mesh.yaml") if how == "option" else ()))
    assert '/mesh.yaml:1: workloads[0].name: "X" is not a name' in output


def test_an_error_of_a_mesh_is_shown_at_the_line_that_called(tmp_path: Path) -> None:
    test = (
        "import pathlib\n"
        "from mesh_local import load_mesh_file\n"
        "def test_a():\n"
        "    load_mesh_file(pathlib.Path('nowhere.yaml'))\n"
    )
    write(tmp_path, test_it=test)
    said = run(tmp_path)
    assert "load_mesh_file(pathlib.Path('nowhere.yaml'))\nE " in said
    assert "MeshFileError: nowhere.yaml:1: can't be read" in said
    assert "mesh_local/" not in said
