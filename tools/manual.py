#!/usr/bin/env python3
"""Write the manual pages of all commands, or `--check` that they are as the commands' help has it.

`NAME docs --man` makes the pages of a command; here they go to `man/man1` of the package that has
the command, or the sub-command, and its wheel installs them as `share/man/man1`.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
import tomllib
from collections.abc import Iterator, Mapping
from pathlib import Path

from workspace import ROOT

PLUGINS = "mesh_agent.commands"
"""The group of entry points that are sub-commands of `mesh-agent`."""


def main(arguments: list[str]) -> int:
    """Write the pages, or check them and return 1 if any is not as it should be."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--check", action="store_true", help="write nothing")
    check = parser.parse_args(arguments).check
    wrong = list(differences(pages()))
    for path, text in wrong:
        if check:
            print(f"manual: {path.relative_to(ROOT)} is not as the help has it: tools/manual.py")
        elif text is None:
            path.unlink()
        else:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
    return 1 if check and wrong else 0


def pages() -> Mapping[Path, str]:
    """Return all pages by where they belong."""
    found: dict[Path, str] = {}
    scripts = {name: value for _, table in projects() for name, value in table.items()}
    homes = {page: folder for folder, table in projects() for page in table}
    homes |= {f"mesh-agent-{name}": folder for folder, name in plugins()}
    first: dict[str, str] = {}
    for folder, name, page in sub_commands():
        found[place(folder, name)] = f".so man1/{page}.1\n"
        scripts.pop(name, None)  # a program; else itself a sub-command
    for name, value in scripts.items():
        if (same := first.setdefault(value, name)) != name:
            found[place(homes[name], name)] = f".so man1/{same}.1\n"
            continue
        for page, text in documents_of(name):
            found[place(homes.get(page, homes[name]), page)] = text
    return found


def differences(wanted: Mapping[Path, str]) -> Iterator[tuple[Path, str | None]]:
    """Return the pages that are missing or other, and those that no command has: None."""
    for path, text in wanted.items():
        if not path.exists() or path.read_text() != text:
            yield path, text
    for path in ROOT.glob("packages/*/man/man1/*"):
        if path not in wanted:
            yield path, None


def projects() -> Iterator[tuple[Path, dict[str, str]]]:
    """Return the folders of packages, and the commands of each: `module:function` by name."""
    for file in sorted(ROOT.glob("packages/*/pyproject.toml")):
        yield file.parent, tomllib.loads(file.read_text())["project"].get("scripts", {})


def plugins() -> Iterator[tuple[Path, str]]:
    """Return the sub-commands of `mesh-agent` that other packages have."""
    for file in sorted(ROOT.glob("packages/*/pyproject.toml")):
        groups = tomllib.loads(file.read_text())["project"].get("entry-points", {})
        for name in groups.get(PLUGINS, {}):
            yield file.parent, name


def sub_commands() -> Iterator[tuple[Path, str, str]]:
    """Return the commands that are sub-commands of another by another name, and its page."""
    for file in sorted(ROOT.glob("packages/*/pyproject.toml")):
        mesh = tomllib.loads(file.read_text())["tool"].get("mesh", {})
        for name, page in mesh.get("manual-of", {}).items():
            yield file.parent, name, page


def documents_of(name: str) -> Iterator[tuple[str, str]]:
    """Run a command of this environment for its pages; return them by name."""
    program = Path(sys.executable).with_name(name)
    with tempfile.TemporaryDirectory() as folder:
        subprocess.run(
            [program, "docs", "--man", "--output-dir", folder],
            check=True,
            stdout=subprocess.DEVNULL,
        )
        for path in sorted(Path(folder).iterdir()):
            yield path.stem, path.read_text()


def place(folder: Path, page: str) -> Path:
    """Return the file of a page."""
    return folder / "man" / "man1" / f"{page}.1"


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
