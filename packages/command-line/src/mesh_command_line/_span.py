"""Time spans as the screens of commands show them."""

from itertools import pairwise

_UNITS = ((86_400, "d"), (3600, "h"), (60, "min"), (1, "s"))


def span(seconds: float) -> str:
    """Return a time span in its two largest units: 40 s, 2 min 5 s, 22 h 40 min, 3 d 5 h.

    Seconds are not shown beside ten minutes or more; of a negative span nothing is left: 0 s.
    """
    whole = max(0, int(seconds))
    for (unit_s, unit), (next_s, next_unit) in pairwise(_UNITS):
        if whole >= unit_s:
            rest = whole % unit_s // next_s
            if not rest or (unit == "min" and whole >= 600):
                return f"{whole // unit_s} {unit}"
            return f"{whole // unit_s} {unit} {rest} {next_unit}"
    return f"{whole} s"
