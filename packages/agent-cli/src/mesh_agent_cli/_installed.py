"""Reads from the metadata's files what installed packages say of themselves.

`importlib.metadata` does this for every form of package, but takes longer to load than all that a
command does before it starts. What is not found here is left to it.
"""

from __future__ import annotations

import os
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

_SUFFIX = ".dist-info"


def entries(group: str) -> Mapping[str, str]:
    """Return the entries of a group, `module:object` by name; that of the first package counts.

    https://packaging.python.org/en/latest/specifications/entry-points/
    """
    found: dict[str, str] = {}
    for folder in _metadata_folders():
        for name, value in _entries(os.path.join(folder, "entry_points.txt"), group):  # noqa: PTH118
            found.setdefault(name, value)
    return found


def installed_version(distribution: str) -> str:
    """Return the version of an installed package; `unknown` if it is none."""
    wanted = distribution.replace("-", "_")
    for folder in _metadata_folders():
        name, _, version = os.path.basename(folder).removesuffix(_SUFFIX).partition("-")  # noqa: PTH119
        if name == wanted and version:
            return version
    from importlib.metadata import PackageNotFoundError
    from importlib.metadata import version as found_version

    try:
        return found_version(distribution)
    except PackageNotFoundError:
        return "unknown"


def _metadata_folders() -> Iterator[str]:
    for place in sys.path:
        try:
            names = os.listdir(place or ".")  # noqa: PTH208 - pathlib is slower to load
        except OSError:
            continue  # an archive, or not there
        for name in names:
            if name.endswith(_SUFFIX):
                yield os.path.join(place, name)  # noqa: PTH118


def _entries(file: str, group: str) -> Iterator[tuple[str, str]]:
    try:
        with open(file, encoding="utf-8") as lines:  # noqa: PTH123
            inside = False
            for each in lines:
                line = each.strip()
                if line.startswith("["):
                    inside = line == f"[{group}]"
                elif inside and line and not line.startswith(("#", ";")):
                    name, _, value = line.partition("=")
                    yield name.strip(), value.strip()
    except (OSError, UnicodeDecodeError):
        return
