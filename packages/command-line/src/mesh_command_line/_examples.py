"""Examples below the help of a command, one a line."""

from __future__ import annotations


def examples(*lines: str) -> str:
    """Return an epilog whose lines stay lines, which the character before them asks for."""
    return "\n".join(("\b", "Examples:", *(f"  {line}" for line in lines)))
