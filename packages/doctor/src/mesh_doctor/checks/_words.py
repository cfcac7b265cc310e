"""Times and names in sentences."""

from collections.abc import Iterable


def span(seconds: float) -> str:
    """Return a time span in its largest unit: 40 s, 12 min, 5 h, 3 days."""
    whole = round(abs(seconds))
    for unit_s, name in ((86_400, "days"), (3600, "h"), (60, "min")):
        if whole >= 2 * unit_s:
            return f"{whole // unit_s} {name}"
    return f"{whole} s"


def listed(words: Iterable[str]) -> str:
    """Return words as in `a, b and c`."""
    *most, last = words
    return f"{', '.join(most)} and {last}" if most else last
