"""Values from outside as parts of a sentence: short, and of characters that a log can show."""

from collections.abc import Iterable

_MAX_TEXT = 200
_MAX_NAMES = 5


def shown(text: str) -> str:
    """Return text as a log may have it."""
    clean = "".join(each if each.isprintable() else "?" for each in text[: _MAX_TEXT + 1])
    return clean if len(text) <= _MAX_TEXT else f"{clean[:_MAX_TEXT]}..."


def listed(names: Iterable[str], *, none: str) -> str:
    """Return a few names, and how many more there are."""
    every = [shown(name) for name in names]
    more = f" and {len(every) - _MAX_NAMES} more" if len(every) > _MAX_NAMES else ""
    return ", ".join(every[:_MAX_NAMES]) + more if every else none


def duration(seconds: float) -> str:
    """Return a time span as one says it: 40 s, 12 min, 5 h, 3 days."""
    whole = round(abs(seconds))
    for unit_s, name in ((86_400, "days"), (3600, "h"), (60, "min")):
        if whole >= 2 * unit_s:
            return f"{whole // unit_s} {name}"
    return f"{whole} s"
