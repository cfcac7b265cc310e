"""Durations as text for people."""

from datetime import timedelta


def brief(duration: timedelta) -> str:
    """Returns two units at most: `1d 3h`, `59m 12s`, `8s`; "expired" when nothing is left."""
    seconds = int(duration.total_seconds())
    if seconds <= 0:
        return "expired"
    parts: list[str] = []
    for unit, size in (("d", 86400), ("h", 3600), ("m", 60), ("s", 1)):
        count, seconds = divmod(seconds, size)
        if count or parts:
            parts.append(f"{count}{unit}")
        if len(parts) == 2:
            break
    return " ".join(parts)


def milliseconds(seconds: float) -> str:
    """Returns a short time: `3.2 ms`, `1.4 s`."""
    return f"{seconds:.1f} s" if seconds >= 1 else f"{seconds * 1000:.1f} ms"
