"""Reads the text of `/stats`."""

from __future__ import annotations

MAX_STATS = 2_000_000
"""Entries kept of one answer; a large Envoy has some hundred thousand."""


def parse_stats(text: str) -> dict[str, int | str]:
    """Return the answer of `/stats` by name: counters and gauges as int, all else as text.

    Lines without `: ` are skipped, so any text at all has a result. Text readouts come without
    their quotes, histograms as Envoy writes them.
    """
    stats: dict[str, int | str] = {}
    for line in text.split("\n"):
        # Names can hold ": " themselves (they come from configuration), values of numbers cannot.
        name, separator, value = line.rstrip("\r").rpartition(": ")
        if separator and value.isascii() and value.isdigit() and len(value) <= 20:
            stats[name] = int(value)
        else:
            name, separator, value = line.rstrip("\r").partition(": ")
            if not separator:
                continue
            stats[name] = value[1:-1] if len(value) >= 2 and value[0] == value[-1] == '"' else value
        if len(stats) >= MAX_STATS:
            break
    return stats
