"""Times and names in sentences."""

from collections.abc import Iterable


def span(seconds: float) -> str:
    """Return a time span in its two largest units: 40 s, 12 min, 22 h 40 min, 3 days 5 h.

    Seconds are not shown beside minutes from two of these on.
    """
    whole = round(abs(seconds))
    if whole < 120:
        return f"{whole} s"
    if whole < 3600:
        return f"{whole // 60} min"
    if whole < 172_800:
        hours, minutes = whole // 3600, whole % 3600 // 60
        return f"{hours} h {minutes} min" if minutes else f"{hours} h"
    days, hours = whole // 86_400, whole % 86_400 // 3600
    return f"{days} days {hours} h" if hours else f"{days} days"


def listed(words: Iterable[str]) -> str:
    """Return words as in `a, b and c`."""
    *most, last = words
    return f"{', '.join(most)} and {last}" if most else last
