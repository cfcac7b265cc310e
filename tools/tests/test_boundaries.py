"""Plants each kind of broken boundary in a copy of the repository and expects it to be found."""

from __future__ import annotations

import shutil
import subprocess
import sys
import tomllib
from collections.abc import Callable
from pathlib import Path

import pytest

import boundaries
from mesh_testkit import PRINTING_VARIABLES
from workspace import ROOT, packages

Checked = Callable[[], "subprocess.CompletedProcess[str]"]
Mistakes = Callable[[], str]


@pytest.fixture(autouse=True)
def _findings_are_printed_plainly(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in PRINTING_VARIABLES:
        monkeypatch.delenv(name, raising=False)


@pytest.fixture
def copy(tmp_path: Path) -> Path:
    """A small repository of two real packages, the upper of which may import the lower."""
    for folder in ("packages/lifecycle", "packages/xds-proxy", "tools/testkit"):
        shutil.copytree(
            ROOT / folder, tmp_path / folder, ignore=shutil.ignore_patterns("__pycache__", ".*")
        )
    write_table(tmp_path, {"mesh_lifecycle": [], "xds_proxy": ["mesh_lifecycle"]})
    return tmp_path


def write_table(root: Path, table: dict[str, list[str]]) -> None:
    lines = [f"{name} = {allowed!r}" for name, allowed in table.items()]
    (root / "pyproject.toml").write_text("\n".join(["[tool.mesh.may-import]", *lines]))


def append(file: Path, line: str) -> None:
    file.write_text(f"{file.read_text()}\n{line}\n")


@pytest.fixture
def check(copy: Path) -> Checked:
    def run() -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, ROOT / "tools" / "boundaries.py", copy],
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            check=False,
        )

    return run


@pytest.fixture
def broken_contracts(copy: Path, capfd: pytest.CaptureFixture[str]) -> Mistakes:
    """Run the check of the import graph alone, which must fail, and return its output."""

    def run() -> str:
        table = tomllib.loads((copy / "pyproject.toml").read_text())["tool"]["mesh"]["may-import"]
        assert not boundaries.imports_keep_to(copy, table)
        return capfd.readouterr().out

    return run


@pytest.fixture
def wrong_declarations(copy: Path, capfd: pytest.CaptureFixture[str]) -> Mistakes:
    """Run the check of what is declared alone, which must fail, and return its output."""

    def run() -> str:
        assert not boundaries.declared_is_imported(copy)
        printed = capfd.readouterr()
        return printed.out + printed.err

    return run


def test_untouched_copy_is_kept(check: Checked) -> None:
    done = check()
    assert done.returncode == 0, done.stdout
    assert "boundaries: kept" in done.stdout


def test_import_that_the_table_does_not_allow_is_found(
    copy: Path, broken_contracts: Mistakes
) -> None:
    append(copy / "packages/lifecycle/src/mesh_lifecycle/_backoff.py", "import xds_proxy")
    assert "mesh_lifecycle is not allowed to import xds_proxy" in broken_contracts()


def test_import_against_the_order_of_folders_is_found(
    copy: Path, broken_contracts: Mistakes
) -> None:
    lowest = copy / "packages/xds-proxy/src/xds_proxy/_errors.py"
    append(lowest, "from xds_proxy import _relay")
    assert "xds_proxy._errors is not allowed to import xds_proxy._relay" in broken_contracts()


def test_a_module_that_the_layers_do_not_name_is_found(
    copy: Path, broken_contracts: Mistakes
) -> None:
    (copy / "packages/xds-proxy/src/xds_proxy/_new.py").write_text('"""New."""\n')
    assert "xds_proxy._new" in broken_contracts()


def test_folders_without_layers_are_found(copy: Path) -> None:
    file = copy / "packages/xds-proxy/pyproject.toml"
    file.write_text(file.read_text().replace("[tool.mesh]", "[tool.other]"))
    (found,) = boundaries.folder_mistakes(copy)
    assert "packages/xds-proxy/pyproject.toml has no tool.mesh.layers" in found


@pytest.fixture
def deep(copy: Path) -> Path:
    """A folder in a folder of a package, with the place of both in an order."""
    folder = copy / "packages/xds-proxy/src/xds_proxy/session/deep"
    folder.mkdir()
    (folder / "__init__.py").write_text('"""Deep."""\n')
    (folder / "_lower.py").write_text('"""Lower."""\n')
    beside = sorted(file.stem for file in folder.parent.glob("_[a-z]*.py"))
    file = copy / "packages/xds-proxy/pyproject.toml"
    append(file, f"[tool.mesh.layers-below]\nsession = {[' : '.join(beside), 'deep']!r}")
    return folder


def test_folders_in_folders_that_keep_to_their_order_are_kept(deep: Path, check: Checked) -> None:
    done = check()
    assert done.returncode == 0, done.stdout
    assert deep.is_dir()


def test_an_import_against_the_order_is_found_in_folders_of_folders(
    deep: Path, broken_contracts: Mistakes
) -> None:
    above = min(deep.parent.glob("_[a-z]*.py")).stem
    append(deep / "_lower.py", f"from xds_proxy.session import {above}")
    assert (
        f"xds_proxy.session.deep is not allowed to import xds_proxy.session.{above}"
        in broken_contracts()
    )


def test_folders_in_folders_without_layers_are_found(deep: Path, copy: Path) -> None:
    file = copy / "packages/xds-proxy/pyproject.toml"
    file.write_text(file.read_text().replace("[tool.mesh.layers-below]", "[tool.mesh.other]"))
    (found,) = boundaries.folder_mistakes(copy)
    assert 'packages/xds-proxy/pyproject.toml has no "session" in tool.mesh.layers-below' in found
    assert deep.is_dir()


def test_layers_of_what_is_no_folder_with_folders_are_found(deep: Path, copy: Path) -> None:
    shutil.rmtree(deep)
    (found,) = boundaries.folder_mistakes(copy)
    assert 'packages/xds-proxy/pyproject.toml has "session" in tool.mesh.layers-below' in found


def test_modules_of_a_folder_that_import_each_other_are_found(
    deep: Path, broken_contracts: Mistakes
) -> None:
    append(deep / "_lower.py", "from xds_proxy.session.deep import _upper")
    (deep / "_upper.py").write_text("from xds_proxy.session.deep import _lower\n")
    assert "No cycles are allowed in xds_proxy.session.deep." in broken_contracts()


def test_a_folder_of_too_many_modules_is_found(copy: Path) -> None:
    folder = copy / "packages/lifecycle/src/mesh_lifecycle"
    for number in range(boundaries.MOST_MODULES):
        (folder / f"_more_{number}.py").touch()
    (found,) = boundaries.folder_mistakes(copy)
    assert "packages/lifecycle/src/mesh_lifecycle holds" in found


def test_import_only_for_type_checking_counts_as_an_import(
    copy: Path, broken_contracts: Mistakes
) -> None:
    append(
        copy / "packages/lifecycle/src/mesh_lifecycle/_backoff.py",
        "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    import xds_proxy",
    )
    assert "mesh_lifecycle is not allowed to import xds_proxy" in broken_contracts()


def test_import_of_another_packages_private_module_is_found(copy: Path, check: Checked) -> None:
    append(copy / "packages/xds-proxy/src/xds_proxy/__init__.py", "import mesh_lifecycle._backoff")
    done = check()
    assert done.returncode == 1
    assert "private to mesh_lifecycle" in done.stdout


@pytest.mark.parametrize("where", ["src/xds_proxy/_planted.py", "tests/test_planted.py"])
@pytest.mark.parametrize(
    "line",
    [
        "import mesh_lifecycle._backoff",
        "from mesh_lifecycle._backoff import Backoff",
        "from mesh_lifecycle import _backoff",
        "def late():\n    from mesh_lifecycle import _backoff",
    ],
)
def test_every_form_of_a_private_import_is_found(copy: Path, where: str, line: str) -> None:
    (copy / "packages/xds-proxy" / where).write_text(line)
    (found,) = boundaries.private_imports(copy)
    assert f"packages/xds-proxy/{where}" in found
    assert "private to mesh_lifecycle" in found


def test_import_past_the_face_of_a_folder_is_found(copy: Path) -> None:
    file = copy / "packages/xds-proxy/src/xds_proxy/_relay.py"
    append(file, "from xds_proxy.session._new import Thing")
    assert list(boundaries.imports_past_faces(copy)) == []
    settings = copy / "packages/xds-proxy/pyproject.toml"
    text = settings.read_text()
    settings.write_text(text.replace("[tool.mesh]", "[tool.mesh]\nfolders-have-faces = true"))
    found = list(boundaries.imports_past_faces(copy))
    assert any("_relay.py" in each and "xds_proxy.session._new.Thing" in each for each in found)
    assert all("is private to xds_proxy." in each for each in found)


def test_package_may_import_its_own_private_modules(copy: Path) -> None:
    (copy / "packages/lifecycle/tests/test_planted.py").write_text(
        "from mesh_lifecycle import __version__\nfrom mesh_lifecycle._backoff import Backoff"
    )
    assert list(boundaries.private_imports(copy)) == []


@pytest.mark.parametrize("line", ["import grpc", "def late():\n    from grpc import aio"])
def test_third_party_import_that_is_not_declared_is_found(
    copy: Path, wrong_declarations: Mistakes, line: str
) -> None:
    append(copy / "packages/lifecycle/src/mesh_lifecycle/_backoff.py", line)
    assert "'grpc' imported but" in wrong_declarations()


def test_sibling_import_that_is_not_declared_is_found(
    copy: Path, wrong_declarations: Mistakes
) -> None:
    manifest = copy / "packages/xds-proxy/pyproject.toml"
    manifest.write_text(manifest.read_text().replace('"mesh-lifecycle>=0.1,<0.2",', ""))
    assert "'mesh_lifecycle' imported but" in wrong_declarations()


def test_requirement_that_is_never_imported_is_found(
    copy: Path, wrong_declarations: Mistakes
) -> None:
    manifest = copy / "packages/lifecycle/pyproject.toml"
    text = manifest.read_text()
    manifest.write_text(text.replace("dependencies = []", 'dependencies = ["protobuf"]'))
    assert "'protobuf' defined as a dependency but not used" in wrong_declarations()


def test_package_without_a_line_in_the_table_is_found(copy: Path, check: Checked) -> None:
    write_table(copy, {"xds_proxy": []})
    done = check()
    assert done.returncode == 1
    assert "packages/lifecycle is not in [tool.mesh.may-import]" in done.stdout


def test_line_of_the_table_without_a_package_is_found(copy: Path) -> None:
    table = {"mesh_lifecycle": [], "xds_proxy": ["mesh_lifecycle"], "gone": []}
    (found,) = boundaries.table_mistakes(copy, table)
    assert "names gone, which is no package" in found


def test_packages_may_not_import_each_other(copy: Path) -> None:
    table = {"mesh_lifecycle": ["xds_proxy"], "xds_proxy": ["mesh_lifecycle"]}
    (found,) = boundaries.table_mistakes(copy, table)
    assert "lets two packages import each other" in found


def test_every_package_of_this_repository_is_read() -> None:
    folders = {path.name for path in (ROOT / "packages").iterdir() if (path / "src").is_dir()}
    assert {package.folder.name for package in packages()} == folders
