"""Formats values from outside for messages: short, and of printable characters."""

from collections.abc import Iterable

_MAX_TEXT = 200
_MAX_NAMES = 5


def shown(text: str) -> str:
    """Return the text shortened, with '?' for characters that are not printable."""
    clean = "".join(each if each.isprintable() else "?" for each in text[: _MAX_TEXT + 1])
    return clean if len(text) <= _MAX_TEXT else f"{clean[:_MAX_TEXT]}..."


def listed(names: Iterable[str], *, none: str) -> str:
    """Return a list of a few names, and the number of the others."""
    every = [shown(name) for name in names]
    more = f" and {len(every) - _MAX_NAMES} more" if len(every) > _MAX_NAMES else ""
    return ", ".join(every[:_MAX_NAMES]) + more if every else none


def duration(seconds: float) -> str:
    """Return a time span in its largest unit: 40 s, 12 min, 5 h, 3 days."""
    whole = round(abs(seconds))
    for unit_s, name in ((86_400, "days"), (3600, "h"), (60, "min")):
        if whole >= 2 * unit_s:
            return f"{whole // unit_s} {name}"
    return f"{whole} s"
