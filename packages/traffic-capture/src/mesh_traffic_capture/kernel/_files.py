"""Small files of the system, read without `pathlib`: loading that takes longer than reading."""

from __future__ import annotations

_MOST_BYTES = 4 << 20


def read_text(file: str) -> str:
    """Return a file's text, of 4 MiB at most; raises OSError."""
    with open(file, "rb") as opened:  # noqa: PTH123
        return opened.read(_MOST_BYTES).decode("utf-8", "replace")
