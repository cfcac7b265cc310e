"""Find the newest Python of this machine."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from functools import cache
from pathlib import Path

_EXECUTABLE = re.compile(r"python3\.(\d+)")


@cache
def newest_python() -> str | None:
    """Return the newest released Python that is newer than the one running this, or None."""
    own = sys.version_info[:2]
    for version, path in sorted(_candidates(), reverse=True):
        if version > own and _works(path):
            return str(path)
    return None


def _candidates() -> Iterator[tuple[tuple[int, int], Path]]:
    for directory in _directories():
        try:
            entries = list(directory.iterdir())
        except OSError:
            continue
        for entry in entries:
            match = _EXECUTABLE.fullmatch(entry.name)
            if match:
                yield (3, int(match[1])), entry


def _directories() -> Iterator[Path]:
    for name in os.get_exec_path():
        directory = Path(name)
        yield directory
        if directory.name == "shims":
            # pyenv's shims refuse the versions that are not selected; the real ones stand beside.
            yield from directory.parent.glob("versions/*/bin")


def _works(python: Path) -> bool:
    try:
        code = "import ssl, sys, venv; sys.exit(sys.version_info.releaselevel != 'final')"
        done = subprocess.run([python, "-c", code], capture_output=True, check=False, timeout=20)
    except (OSError, subprocess.TimeoutExpired):
        return False
    return done.returncode == 0
