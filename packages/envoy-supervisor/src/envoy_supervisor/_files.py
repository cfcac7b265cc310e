"""Writes and removes the files that the supervisor makes in a directory of the user's."""

from __future__ import annotations

import logging
import os
from pathlib import Path

log = logging.getLogger(__name__)


def remove(path: Path) -> None:
    """Remove a file if it is there. Logs if that cannot be: nothing depends on it."""
    try:
        path.unlink(missing_ok=True)
    except OSError as error:
        log.warning("a file is left", extra={"path": str(path), "reason": error.strerror})


def write_private(path: Path, text: str) -> None:
    """Write a file that only its owner can read; replaces an old one in one step."""
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    temporary = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        with os.fdopen(descriptor, "w", encoding="utf-8", errors="surrogateescape") as file:
            file.write(text)
        temporary.rename(path)
    except OSError:
        temporary.unlink(missing_ok=True)
        raise
