"""Each package can be put on a package index: what its page and its archives need is there."""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Any

import pytest

from workspace import ROOT, Package, distribution_name, distributions, packages

PACKAGES = pytest.mark.parametrize("package", packages(), ids=lambda each: each.name)


def project_of(package: Package) -> dict[str, Any]:
    project: dict[str, Any] = tomllib.loads((package.folder / "pyproject.toml").read_text())[
        "project"
    ]
    return project


@PACKAGES
def test_the_license_is_in_the_folder_and_named(package: Package) -> None:
    project = project_of(package)
    assert project["license"] == "Apache-2.0"
    assert project["license-files"] == ["LICENSE"]
    assert (package.folder / "LICENSE").read_text() == (ROOT / "LICENSE").read_text()


@PACKAGES
def test_who_wrote_it_and_what_it_is_for_are_named(package: Package) -> None:
    project = project_of(package)
    assert project["authors"] == [{"name": "The mesh-agent authors"}]
    assert project["keywords"]
    classifiers = set(project["classifiers"])
    assert "Typing :: Typed" in classifiers
    assert any(each.startswith("Topic :: ") for each in classifiers)
    versions = {f"Programming Language :: Python :: 3.{minor}" for minor in (11, 12, 13, 14)}
    assert versions <= classifiers


@PACKAGES
def test_from_a_checkout_all_siblings_come_from_the_checkout(package: Package) -> None:
    folders = {each.name: each.folder for each in distributions()}
    everything = tomllib.loads((package.folder / "pyproject.toml").read_text())
    extras = everything["project"].get("optional-dependencies", {}).values()
    named = [*package.requires(*package.groups), *(line for extra in extras for line in extra)]
    needed = {distribution_name(requirement) for requirement in named} & folders.keys()
    sources = everything["tool"].get("uv", {}).get("sources", {})
    assert sources.keys() == needed
    for name, source in sources.items():
        assert (package.folder / source["path"]).resolve() == folders[name]


@PACKAGES
def test_every_range_of_a_sibling_has_an_end(package: Package) -> None:
    ours = {each.name for each in packages()}
    for requirement in package.requirements:
        name = Path(requirement.split("[")[0].split(">")[0].split("=")[0].strip()).name
        if name in ours:
            assert ",<" in requirement, requirement
