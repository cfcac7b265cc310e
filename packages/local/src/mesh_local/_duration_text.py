"""Durations as text for people."""

from datetime import timedelta

from mesh_command_line import span


def brief(duration: timedelta) -> str:
    """Return the two largest units: `22 h 40 min`, `59 min`, `8 s`; "expired" for nothing left."""
    seconds = duration.total_seconds()
    return span(seconds) if seconds >= 1 else "expired"


def milliseconds(seconds: float) -> str:
    """Return a short time: `3.2 ms`, `1.4 s`."""
    return f"{seconds:.1f} s" if seconds >= 1 else f"{seconds * 1000:.1f} ms"
