"""Check an installed package as its users have it: called with the Python of their environment.

Nothing of this checkout is on the path there. What is checked: its public face; that the wheel has
each file of the source, and a manual page of each command; that each module can be imported, those
that ask for an optional part only if that is installed; that its commands print their help; the
imports its README shows, and those of its examples that are whole programs.
"""

from __future__ import annotations

import argparse
import ast
import importlib
import re
import subprocess
import sys
import sysconfig
import tempfile
from collections.abc import Iterator
from importlib.metadata import Distribution, distribution
from pathlib import Path

import public_face

_COMMAND_GROUPS: dict[str, tuple[str, ...]] = {
    "console_scripts": (),
    "mesh_agent.commands": ("mesh-agent",),
}
"""The groups of entry points that are commands, and the program whose sub-commands they are."""
_EXTRA = re.compile(r"""([A-Za-z0-9._-]+).*;.*\bextra\s*==\s*['"]([^'"]+)['"]""")
_MODULE = {"protobuf": "google", "xds_protos": "envoy"}
"""The module of a distribution that has another name; not installed, it can't be asked."""
_PYTHON_BLOCK = re.compile(r"^```python(?: run)?\n(.*?)^```", re.MULTILINE | re.DOTALL)
_PROGRAM = re.compile(r"^```python run\n(.*?)^```", re.MULTILINE | re.DOTALL)
_PROGRAM_TIMEOUT_S = 60.0


def mistakes(folder: Path, name: str, *, import_name: str, extras: bool) -> Iterator[str]:
    """Find what is wrong with the installed distribution of a package's folder.

    extras: whether its optional parts are installed too.
    """
    installed = distribution(name)
    if fault := public_face.main(import_name):
        yield fault
    yield from missing_files(folder / "src", installed)
    yield from missing_manual_pages(installed)
    optional = {} if extras else optional_modules(installed)
    yield from failing_imports(modules_of(installed), optional)
    if not extras:
        yield from failing_programs(folder / "README.md")
    if extras or not optional:
        yield from failing_examples(folder / "README.md")
        yield from failing_commands(installed)


def missing_files(source: Path, installed: Distribution) -> Iterator[str]:
    """Find files of the source that the wheel did not bring."""
    brought = {str(file) for file in installed.files or ()}
    for file in sorted(source.rglob("*")):
        relative = str(file.relative_to(source))
        if file.is_file() and "__pycache__" not in file.parts and relative not in brought:
            yield f"the wheel of {installed.name} does not have {relative}"


def missing_manual_pages(installed: Distribution) -> Iterator[str]:
    """Find commands without a page that `man` finds."""
    brought = {file.name for file in installed.files or () if "share/man/man1" in str(file)}
    for point in installed.entry_points:
        page = "-".join((*_COMMAND_GROUPS.get(point.group, ()), point.name)) + ".1"
        if point.group in _COMMAND_GROUPS and page not in brought:
            yield f"the wheel of {installed.name} does not have the manual page {page}"


def modules_of(installed: Distribution) -> list[str]:
    """Return the names of the modules that the wheel brought, but for what runs when imported."""
    files = (Path(file) for file in installed.files or () if file.suffix == ".py")
    return sorted(
        ".".join(file.parent.parts if file.stem == "__init__" else file.with_suffix("").parts)
        for file in files
        if file.stem != "__main__"
    )


def optional_modules(installed: Distribution) -> dict[str, str]:
    """Return the extra that brings it, by the module's name: `prometheus_client: metrics`."""
    found = (_EXTRA.match(line) for line in installed.requires or ())
    names = {match[1].replace("-", "_").lower(): match[2] for match in found if match}
    return {_MODULE.get(name, name): extra for name, extra in names.items()}


def failing_imports(names: list[str], optional: dict[str, str]) -> Iterator[str]:
    """Import all; find those that fail, but for want of an optional module."""
    for name in names:
        try:
            importlib.import_module(name)
        except ModuleNotFoundError as error:
            missing = (error.name or "").partition(".")[0]
            if missing in optional:
                print(f"{name}: needs the extra {optional[missing]!r}")
            else:
                yield f"{name} cannot be imported: {error}"
        except Exception as error:  # noqa: BLE001 - whatever a module does when it is imported
            yield f"{name} cannot be imported: {type(error).__name__}: {error}"


def failing_examples(readme: Path) -> Iterator[str]:
    """Run the import statements of the README's Python examples."""
    for block in _PYTHON_BLOCK.findall(readme.read_text()):
        for node in ast.walk(ast.parse(block, filename=str(readme))):
            if not isinstance(node, ast.Import | ast.ImportFrom):
                continue
            statement = ast.unparse(node)
            try:
                exec(statement, {})  # noqa: S102 - a line of our own README
            except ImportError as error:
                yield f"{readme.parent.name}/README.md says {statement!r}: {error}"


def failing_programs(readme: Path) -> Iterator[str]:
    """Run the README's examples that are whole programs, ```python run, each in an empty folder."""
    for number, block in enumerate(_PROGRAM.findall(readme.read_text()), start=1):
        with tempfile.TemporaryDirectory() as folder:
            done = subprocess.run(
                [sys.executable, "-c", block],
                cwd=folder,
                capture_output=True,
                text=True,
                check=False,
                timeout=_PROGRAM_TIMEOUT_S,
            )
        if done.returncode != 0:
            lines = done.stderr.strip().splitlines() or ["nothing is printed"]
            yield f"{readme.parent.name}/README.md, program {number}: {lines[-1]}"


def failing_commands(installed: Distribution) -> Iterator[str]:
    """Ask each command of the distribution for its help."""
    scripts = Path(sysconfig.get_path("scripts"))
    for point in installed.entry_points:
        if point.group not in _COMMAND_GROUPS:
            continue
        command = [*_COMMAND_GROUPS[point.group], point.name, "--help"]
        done = subprocess.run(
            [str(scripts / command[0]), *command[1:]], capture_output=True, text=True, check=False
        )
        if done.returncode != 0 or not done.stdout.strip():
            lines = done.stderr.strip().splitlines() or ["nothing is printed"]
            yield f"{' '.join(command)} fails with exit status {done.returncode}: {lines[-1]}"


def main(arguments: list[str]) -> int:
    """Print what is wrong with an installed package; return 1 if anything is."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path, help="the package's folder, for README and source")
    parser.add_argument("name", help="its distribution")
    parser.add_argument("import_name")
    parser.add_argument("--extras", action="store_true", help="its optional parts are installed")
    chosen = parser.parse_args(arguments)
    found = list(
        mistakes(chosen.folder, chosen.name, import_name=chosen.import_name, extras=chosen.extras)
    )
    for mistake in found:
        print(f"installed: {mistake}", file=sys.stderr)
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
