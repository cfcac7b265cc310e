"""The documents name files and tests that are there."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

from workspace import ROOT, Package, packages

NAMED = re.compile(r"`((?:packages|tests-e2e|tools)/[\w./-]*test_\w+\.py)(?:::(\w+))?`")


def named_tests(document: Path) -> list[tuple[str, str]]:
    return NAMED.findall(document.read_text())


def functions_of(file: Path) -> set[str]:
    tree = ast.parse(file.read_text())
    kinds = (ast.FunctionDef, ast.AsyncFunctionDef)
    return {node.name for node in ast.walk(tree) if isinstance(node, kinds)}


@pytest.mark.parametrize(
    ("file", "function"),
    [
        *named_tests(ROOT / "docs" / "threat-model.md"),
        *named_tests(ROOT / "docs" / "faults.md"),
    ],
)
def test_each_claim_about_threats_and_faults_is_held_by_a_test_that_is_there(
    file: str, function: str
) -> None:
    assert (ROOT / file).is_file()
    assert not function or function in functions_of(ROOT / file)


def named_modules(document: Path) -> list[str]:
    """The modules that a document names: by path, below the folder it says paths are below, or by
    name in the folder of the last path.
    """
    base, folder, found = Path(), Path(), []
    for below, name in re.findall(
        r"Paths are below `([\w./-]+)`|`([\w./-]+\.py)`", document.read_text()
    ):
        if below:
            base = folder = Path(below)
            continue
        if name.startswith("packages/"):
            folder = Path(name).parent
        elif "/" in name:
            folder = base / Path(name).parent
        elif (ROOT / base / name).is_file():
            folder = base
        found.append(str(folder / Path(name).name))
    return found


@pytest.mark.parametrize("module", named_modules(ROOT / "CONTRIBUTING.md"))
def test_each_module_that_contributors_are_sent_to_is_there(module: str) -> None:
    assert (ROOT / module).is_file()


AGENT = ROOT / "packages" / "agent"


def variables_of_ours() -> list[str]:
    """The names of the agent's own variables."""
    table = AGENT / "src" / "mesh_agent" / "config" / "table" / "_variables.py"
    return sorted(set(re.findall(r'"(MESH_AGENT_\w+)"', table.read_text())))


def metrics_of_ours() -> list[str]:
    """The names of the agent's own metrics."""
    sources = (AGENT / "src" / "mesh_agent" / "status").glob("_*metrics.py")
    found = (re.findall(r'"mesh_agent_(\w+)"', source.read_text()) for source in sources)
    return sorted({name for names in found for name in names})


@pytest.mark.parametrize("name", [*variables_of_ours(), *metrics_of_ours()])
def test_each_variable_and_metric_of_the_agent_s_own_is_in_its_readme(name: str) -> None:
    assert re.search(rf"`(?:mesh_agent_)?{name}\b", (AGENT / "README.md").read_text())


@pytest.mark.parametrize("package", packages(), ids=lambda each: each.name)
def test_each_readme_says_how_to_install_by_name_from_a_checkout_and_from_wheels(
    package: Package,
) -> None:
    readme = (package.folder / "README.md").read_text()
    by_name = f"pip install {package.name}"
    from_checkout = f"uv pip install ./packages/{package.folder.name}"
    from_wheels = f"--find-links dist {package.name}"
    assert by_name in readme
    assert from_checkout in readme
    assert from_wheels in readme
    assert readme.index(by_name) < readme.index(from_checkout) < readme.index(from_wheels)
