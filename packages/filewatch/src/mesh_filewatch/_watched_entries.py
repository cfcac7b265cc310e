"""Which directory entries decide what a path leads to.

A path is resolved as the kernel resolves it. Any entry on the way may be replaced: each symbolic
link (Kubernetes renames `..data`), the file at the end, and the directory that holds it. When a
part of the path is missing, the entry that would create it is included.
"""

import os
from collections import deque
from pathlib import Path

_MAX_LINKS = 40

Entry = tuple[str, str]
"""A directory and a name in it."""


def watched_entries(path: Path) -> frozenset[Entry]:
    """Return the entries to watch for `path`, as the file system is now.

    Links directly below / are the system's own (/bin, /tmp, /var) and are left out.
    """
    entries: set[Entry] = set()
    current, links = "/", 0
    ahead = deque(part for part in os.path.abspath(path).split("/") if part)  # noqa: PTH100
    while ahead:
        name = ahead.popleft()
        if name in {"", "."}:
            continue
        if name == "..":
            current = os.path.dirname(current)  # noqa: PTH120
            continue
        here = os.path.join(current, name)  # noqa: PTH118
        try:
            target = os.readlink(here)  # noqa: PTH115
        except OSError:
            if not ahead or not os.path.lexists(here):
                entries.add((current, name))
                _add_directory(entries, current)
                break
            current = here
            continue
        if current != "/":
            entries.add((current, name))
            _add_directory(entries, current)
        links += 1
        if links > _MAX_LINKS:
            break
        ahead.extendleft(reversed(target.split("/")))
        if target.startswith("/"):
            current = "/"
    return frozenset(entries)


def _add_directory(entries: set[Entry], directory: str) -> None:
    """Add the directory's own entry: it may be moved or deleted, and replaced by another."""
    if directory != "/":
        entries.add((os.path.dirname(directory), os.path.basename(directory)))  # noqa: PTH119, PTH120
