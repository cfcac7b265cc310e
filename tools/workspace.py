"""The packages of this repository, as their own pyproject.toml files describe them.

Everything that is done for each package starts here, so a new folder under packages/ needs no
list to be edited.
"""

from __future__ import annotations

import re
import tomllib
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")
_AT_LEAST = re.compile(r">=\s*([0-9.]+)")


@dataclass(frozen=True, slots=True, kw_only=True)
class Package:
    """A distribution and where it stands; requirements are as written, names are normalised."""

    folder: Path
    name: str
    import_name: str
    requirements: tuple[str, ...]
    extras: tuple[str, ...]
    groups: dict[str, tuple[str, ...]]
    builds_with: tuple[str, ...] = ()

    @property
    def source(self) -> Path:
        """The directory that holds the import package."""
        return self.folder / "src"

    def requires(self, *groups: str) -> tuple[str, ...]:
        """What it needs at run time, and for the named dependency groups that it has."""
        return self.requirements + tuple(r for g in groups for r in self.groups.get(g, ()))


def read_package(folder: Path) -> Package:
    """Read a package's folder."""
    table = tomllib.loads((folder / "pyproject.toml").read_text())
    (source,) = table["tool"]["hatch"]["build"]["targets"]["wheel"]["packages"]
    return Package(
        folder=folder,
        name=distribution_name(table["project"]["name"]),
        import_name=Path(source).name,
        requirements=tuple(table["project"].get("dependencies", ())),
        extras=tuple(table["project"].get("optional-dependencies", ())),
        groups={name: tuple(group) for name, group in table.get("dependency-groups", {}).items()},
        builds_with=tuple(table.get("build-system", {}).get("requires", ())),
    )


def packages(root: Path = ROOT) -> tuple[Package, ...]:
    """All packages of the product, by folder name."""
    return tuple(
        read_package(file.parent) for file in sorted(root.glob("packages/*/pyproject.toml"))
    )


def distributions(root: Path = ROOT) -> tuple[Package, ...]:
    """All distributions built here: the packages and the pytest plugin that tests them."""
    return (*packages(root), read_package(root / "tools" / "testkit"))


def distribution_name(requirement: str) -> str:
    """Return the normalised name that a requirement starts with."""
    match = _NAME.match(requirement)
    if match is None:
        raise ValueError(f"{requirement!r} does not start with the name of a distribution")
    return re.sub(r"[-_.]+", "-", match[0]).lower()


def closure(package: Package, *groups: str, root: Path = ROOT) -> tuple[Package, ...]:
    """Return the package and every distribution built here that it needs, by name.

    The groups count for the package itself only: the test tools of a dependency are never needed.
    """
    own = {each.name: each for each in distributions(root)}
    found = {package.name: package}
    waiting = [distribution_name(requirement) for requirement in package.requires(*groups)]
    while waiting:
        name = waiting.pop()
        if name in own and name not in found:
            found[name] = own[name]
            waiting += [distribution_name(r) for r in own[name].requirements]
    return tuple(found[name] for name in sorted(found))


def third_party(package: Package, *groups: str, root: Path = ROOT) -> tuple[str, ...]:
    """Return the requirements that come from the package index, for the package alone."""
    own = {each.name for each in distributions(root)}
    return tuple(r for r in package.requires(*groups) if distribution_name(r) not in own)


def lowest_versions(chosen: tuple[Package, ...], *, root: Path = ROOT) -> tuple[str, ...]:
    """Return `name==version` for each requirement from the index that has a lowest version.

    Of several packages that name one, the highest of their lowest versions is what all allow.
    """
    lowest: dict[str, str] = {}
    for package in chosen:
        for requirement in third_party(package, root=root):
            match = _AT_LEAST.search(requirement.partition(";")[0])
            if match is not None:
                name = distribution_name(requirement)
                lowest[name] = max(lowest.get(name, "0"), match[1], key=_release)
    return tuple(f"{name}=={version}" for name, version in sorted(lowest.items()))


def _release(version: str) -> tuple[int, ...]:
    return tuple(map(int, version.split(".")))
