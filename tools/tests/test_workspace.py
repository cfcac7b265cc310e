"""Reads packages written for the test, laid out as those of this repository are."""

from __future__ import annotations

from pathlib import Path

import pytest

from workspace import closure, distribution_name, lowest_versions, packages, third_party

MANIFEST = """
[project]
name = "{name}"
dependencies = {dependencies}

[dependency-groups]
test = {test}

[tool.hatch.build.targets.wheel]
packages = ["src/{module}"]
"""


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """Make a repository: top -> middle -> bottom, and a plugin that tests them."""

    def write(folder: str, name: str, dependencies: list[str], test: list[str]) -> None:
        path = tmp_path / folder / "pyproject.toml"
        path.parent.mkdir(parents=True)
        module = name.replace("-", "_")
        path.write_text(
            MANIFEST.format(name=name, module=module, dependencies=dependencies, test=test)
        )

    write("packages/bottom", "mesh-bottom", ["protobuf>=5.9,<8"], ["mesh-testkit"])
    write("packages/middle", "mesh-middle", ["mesh_bottom>=0.1,<0.2"], ["mesh-testkit", "psutil"])
    write("packages/top", "mesh-top", ["Mesh.Middle>=0.1", "grpcio"], ["mesh-testkit", "h2"])
    write(
        "packages/side", "mesh-side", ["mesh-bottom>=0.1", "protobuf>=5.10; python_version>'3'"], []
    )
    write("tools/testkit", "mesh-testkit", ["pytest>=9"], [])
    return tmp_path


def names(root: Path, folder: str, *groups: str) -> list[str]:
    (package,) = (each for each in packages(root) if each.folder.name == folder)
    return [each.name for each in closure(package, *groups, root=root)]


def test_closure_holds_siblings_however_they_are_spelled(root: Path) -> None:
    assert names(root, "top") == ["mesh-bottom", "mesh-middle", "mesh-top"]
    assert names(root, "bottom") == ["mesh-bottom"]


def test_closure_with_a_group_holds_what_the_tests_need(root: Path) -> None:
    assert names(root, "bottom", "test") == ["mesh-bottom", "mesh-testkit"]


def test_third_party_requirements_are_those_of_the_package_alone(root: Path) -> None:
    (top,) = (each for each in packages(root) if each.folder.name == "top")
    assert third_party(top, root=root) == ("grpcio",)
    assert third_party(top, "test", "no such group", root=root) == ("grpcio", "h2")


def test_lowest_versions_are_the_highest_of_those_that_all_allow(root: Path) -> None:
    def lowest(folder: str) -> tuple[str, ...]:
        (package,) = (each for each in packages(root) if each.folder.name == folder)
        return lowest_versions(closure(package, root=root), root=root)

    assert lowest("top") == ("protobuf==5.9",)
    assert lowest("side") == ("protobuf==5.10",)


@pytest.mark.parametrize(
    ("requirement", "name"),
    [
        ("grpcio", "grpcio"),
        ("PyYAML>=6", "pyyaml"),
        ("uvloop>=0.21; sys_platform != 'win32'", "uvloop"),
        ("zope.interface [test] (>=5)", "zope-interface"),
    ],
)
def test_name_of_a_requirement_is_normalised(requirement: str, name: str) -> None:
    assert distribution_name(requirement) == name


def test_requirement_without_a_name_is_refused() -> None:
    with pytest.raises(ValueError, match="does not start with the name"):
        distribution_name(">=1")
