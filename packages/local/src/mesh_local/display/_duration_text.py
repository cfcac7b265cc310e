"""Durations as text for people."""

from datetime import timedelta
from itertools import pairwise

_UNITS = ((86_400, "d"), (3600, "h"), (60, "min"), (1, "s"))


def brief(duration: timedelta) -> str:
    """Return the two largest units: `22 h 40 min`, `59 min`, `8 s`; "expired" for nothing left.

    Seconds are not told beside ten minutes or more.
    """
    seconds = int(duration.total_seconds())
    if seconds <= 0:
        return "expired"
    for (unit_s, unit), (next_s, next_unit) in pairwise(_UNITS):
        if seconds >= unit_s:
            rest = seconds % unit_s // next_s
            if not rest or (unit == "min" and seconds >= 600):
                return f"{seconds // unit_s} {unit}"
            return f"{seconds // unit_s} {unit} {rest} {next_unit}"
    return f"{seconds} s"


def milliseconds(seconds: float) -> str:
    """Return a short time: `3.2 ms`, `1.4 s`."""
    return f"{seconds:.1f} s" if seconds >= 1 else f"{seconds * 1000:.1f} ms"
