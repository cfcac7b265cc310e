"""Durations as Istio's settings write them: `24h`, `1h30m`, `100ms`."""

import re
from datetime import timedelta

_UNITS = {
    "h": timedelta(hours=1),
    "m": timedelta(minutes=1),
    "s": timedelta(seconds=1),
    "ms": timedelta(milliseconds=1),
    "us": timedelta(microseconds=1),
}
_PART = re.compile(r"(\d+(?:\.\d+)?)(ms|us|h|m|s)")


def parse_duration(text: str) -> timedelta:
    """Read a duration; raises ValueError saying what would be right.

    Source: the format of Go's time.ParseDuration, without signs and nanoseconds.
    """
    stripped = text.strip()
    if stripped == "0":
        return timedelta()
    parts = _PART.findall(stripped)
    if not parts or "".join(number + unit for number, unit in parts) != stripped:
        raise ValueError(f"{text!r} is not a duration such as 24h, 1h30m, 20s or 100ms")
    try:
        return sum((_UNITS[unit] * float(number) for number, unit in parts), timedelta())
    except OverflowError:
        raise ValueError(f"{text!r} is longer than any duration can be") from None
