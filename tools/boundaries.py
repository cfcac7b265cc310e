"""Check that the packages keep to themselves, and the folders inside them to their order.

Five checks over one tree: every package is in the table of who may import whom and the table names
nothing else; the import graph keeps to it, and pure packages import nothing that has time, network
or processes in it (import-linter, `tool.mesh.never-import`); no file imports a private module of
another package, tests included; no folder of a package holds more modules than a reader can take
in, and imports between folders run in one direction only, at any depth, as those between the
modules of a folder do; what a package imports is what it declares (deptry).

A package with `folders-have-faces = true` in its `tool.mesh` imports what is in one of its folders,
from outside it, by the folder's public modules only, as other packages do.

The order of a package's folders and of the modules beside them is `tool.mesh.layers` in its own
pyproject.toml, the topmost first. A layer is `a`, or `a | b` for two that don't import each other,
or `a : b` for two that may. `tool.mesh.layers-below` has the same for each folder that has folders
itself, by its path in the package: `push/context`.
"""

from __future__ import annotations

import ast
import os
import subprocess
import sys
import tempfile
import tomllib
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from workspace import ROOT, Package, distributions, packages

Table = dict[str, list[str]]
MOST_MODULES = 16
"""In one folder of a package, `__init__` and `__main__` not counted."""


def main(root: Path) -> int:
    """Run every check, also after one failed; return 1 if any did."""
    table: Table = tomllib.loads((root / "pyproject.toml").read_text())["tool"]["mesh"][
        "may-import"
    ]
    mistakes = [
        *table_mistakes(root, table),
        *private_imports(root),
        *imports_past_faces(root),
        *folder_mistakes(root),
    ]
    for mistake in mistakes:
        print(f"boundaries: {mistake}", file=sys.stderr)
    kept = [not mistakes, imports_keep_to(root, table), declared_is_imported(root)]
    print("boundaries: kept" if all(kept) else "boundaries: broken", flush=True)
    return 0 if all(kept) else 1


def table_mistakes(root: Path, table: Table) -> Iterator[str]:
    """Compare the table with the folders under packages/."""
    where = "[tool.mesh.may-import] in pyproject.toml"
    folders = {package.import_name: package.folder for package in packages(root)}
    for name in sorted(folders.keys() - table.keys()):
        folder = folders[name].relative_to(root)
        yield f"{folder} is not in {where}: add {name} and what it may import"
    named = table.keys() | {name for allowed in table.values() for name in allowed}
    for name in sorted(named - folders.keys()):
        yield f"{where} names {name}, which is no package under packages/"
    if any(name in table[other] for name in table for other in table[name] if other in table):
        yield f"{where} lets two packages import each other"


def private_imports(root: Path) -> Iterator[str]:
    """Find imports of another package's private modules or names, in every Python file."""
    ours = {each.import_name for each in distributions(root)}
    owned = [(each.folder, each.import_name) for each in distributions(root)]
    areas = [*owned, (root / "tests-e2e", ""), (root / "examples", ""), (root / "bench", "")]
    for folder, owner in areas:
        for file in sorted(folder.rglob("*.py")):
            for line, name in _imported_names(file):
                top, *below = name.split(".")
                if top in ours and top != owner and any(_is_private(part) for part in below):
                    place = f"{file.relative_to(root)}:{line}"
                    yield f"{place} imports {name}, which is private to {top}"


def imports_past_faces(root: Path) -> Iterator[str]:
    """Find imports of a folder's private modules from outside it, in packages that have none."""
    for package in packages(root):
        if not _settings(package).get("folders-have-faces", False):
            continue
        for file in sorted((package.source / package.import_name).rglob("*.py")):
            inside = file.relative_to(package.source).parent.parts
            for line, name in _imported_names(file):
                parts = name.split(".")
                depth = next((at for at, each in enumerate(parts) if _is_private(each)), 0)
                if parts[0] == package.import_name and tuple(parts[:depth]) != inside[:depth]:
                    where = f"{file.relative_to(root)}:{line}"
                    yield f"{where} imports {name}, which is private to {'.'.join(parts[:depth])}"


def _imported_names(file: Path) -> Iterator[tuple[int, str]]:
    for node in ast.walk(ast.parse(file.read_bytes(), filename=str(file))):
        if isinstance(node, ast.Import):
            yield from ((node.lineno, alias.name) for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module and node.level == 0:
            yield from ((node.lineno, f"{node.module}.{alias.name}") for alias in node.names)


def _is_private(name: str) -> bool:
    return name.startswith("_") and not name.endswith("__")


def folder_mistakes(root: Path) -> Iterator[str]:
    """Find folders of source with too many modules, and packages with folders but no layers."""
    for package in packages(root):
        source = package.source / package.import_name
        for folder in (source, *sorted(source.rglob("*/"))):
            modules = [each for each in folder.glob("*.py") if not each.stem.startswith("__")]
            if len(modules) > MOST_MODULES and not _is_generated(modules):
                yield (
                    f"{folder.relative_to(root)} holds {len(modules)} modules, at most"
                    f" {MOST_MODULES} are easy to find one's way in: make folders by idea"
                )
        yield from _layer_mistakes(root, package)


def _layer_mistakes(root: Path, package: Package) -> Iterator[str]:
    """Find folders with folders that have no layers, and layers of what is no such folder."""
    source = package.source / package.import_name
    settings = f"{package.folder.relative_to(root)}/pyproject.toml"
    if _is_generated(source.rglob("*.py")):
        return
    if _has_folders(source) and not layers(package):
        yield (
            f"{settings} has no tool.mesh.layers, which says in which direction its folders may"
            " import each other"
        )
    found = {
        folder.relative_to(source).as_posix()
        for folder in source.rglob("*/")
        if _has_folders(folder)
    }
    ordered = layers_below(package).keys()
    for name in sorted(found - ordered):
        yield (
            f'{settings} has no "{name}" in tool.mesh.layers-below, which says in which direction'
            " the folders in it may import each other"
        )
    for name in sorted(ordered - found):
        yield f'{settings} has "{name}" in tool.mesh.layers-below, which is no folder with folders'


def _has_folders(folder: Path) -> bool:
    return any(folder.glob("*/__init__.py"))


def _is_generated(modules: Iterable[Path]) -> bool:
    return any(each.stem.endswith("_pb2") for each in modules)


def layers(package: Package) -> list[str]:
    """Return the folders and modules of a package from top to bottom; empty if it names none."""
    found: list[str] = _settings(package).get("layers", [])
    return found


def layers_below(package: Package) -> Table:
    """Return the same of the folders of a package that have folders, by their paths in it."""
    found: Table = _settings(package).get("layers-below", {})
    return found


def _settings(package: Package) -> dict[str, Any]:
    tools = tomllib.loads((package.folder / "pyproject.toml").read_text())["tool"]
    found: dict[str, Any] = tools.get("mesh", {})
    return found


def imports_keep_to(root: Path, table: Table) -> bool:
    """Check the import graph of the packages against the table."""
    present = packages(root)
    names = [package.import_name for package in present]
    with tempfile.TemporaryDirectory() as directory:
        config = Path(directory, "contracts.toml")
        config.write_text(
            _contracts(names, table)
            + _pure_contracts(root)
            + _layer_contracts(present)
            + _circle_contract(names)
        )
        # The tree that is checked need not be the one that is installed.
        path = os.pathsep.join(str(package.source) for package in present)
        program = Path(sys.executable).with_name("lint-imports")
        command = [str(program), "--no-logo", "--no-cache", "--config", str(config)]
        environment = {**os.environ, "PYTHONPATH": path}
        return subprocess.run(command, cwd=directory, env=environment, check=False).returncode == 0


def _contracts(names: list[str], table: Table) -> str:
    lines = [
        "[tool.importlinter]",
        f"root_packages = {names!r}",
        "include_external_packages = true",
    ]
    for name in names:
        allowed = table.get(name, [])
        forbidden = [other for other in names if other != name and other not in allowed]
        lines += [
            "[[tool.importlinter.contracts]]",
            f"name = '{name} imports {', '.join(allowed) or 'no other package'}'",
            "type = 'forbidden'",
            f"source_modules = ['{name}']",
            f"forbidden_modules = {forbidden!r}",
            "allow_indirect_imports = true",
        ]
    return "\n".join(lines)


def _pure_contracts(root: Path) -> str:
    """Return a contract for each package that has no time, network or processes in it."""
    settings = tomllib.loads((root / "pyproject.toml").read_text())["tool"]["mesh"]
    pure: Table = settings.get("never-import", {})
    lines = [""]
    for name, forbidden in pure.items():
        lines += [
            "[[tool.importlinter.contracts]]",
            f"name = '{name} is pure'",
            "type = 'forbidden'",
            f"source_modules = ['{name}']",
            f"forbidden_modules = {forbidden!r}",
            "allow_indirect_imports = true",
        ]
    return "\n".join(lines)


def _layer_contracts(present: tuple[Package, ...]) -> str:
    lines = [""]
    for package in present:
        orders = {package.import_name: layers(package)} | {
            f"{package.import_name}.{path.replace('/', '.')}": order
            for path, order in layers_below(package).items()
        }
        for folder, order in orders.items():
            if order:
                lines += _layer_contract(folder, order)
    return "\n".join(lines)


def _layer_contract(folder: str, order: list[str]) -> list[str]:
    return [
        "[[tool.importlinter.contracts]]",
        f"name = 'the folders of {folder} import downward only'",
        "type = 'layers'",
        f"containers = ['{folder}']",
        f"layers = {order!r}",
        "exhaustive = true",
        "exhaustive_ignores = ['__main__']",
    ]


def _circle_contract(names: list[str]) -> str:
    lines = [
        "",
        "[[tool.importlinter.contracts]]",
        "name = 'no modules of a folder import each other in a circle'",
        "type = 'acyclic_siblings'",
        f"ancestors = {names!r}",
    ]
    return "\n".join(lines)


def declared_is_imported(root: Path) -> bool:
    """Check each package's requirements against its imports."""
    return all([_declared_is_imported(package) for package in packages(root)])  # noqa: C419 - all run


def _declared_is_imported(package: Package) -> bool:
    print(f"deptry {package.folder.name}", flush=True)
    command = [sys.executable, "-m", "deptry", "--no-ansi", "src"]
    return subprocess.run(command, cwd=package.folder, check=False).returncode == 0


if __name__ == "__main__":
    sys.exit(main(Path(*sys.argv[1:]) if sys.argv[1:] else ROOT))
