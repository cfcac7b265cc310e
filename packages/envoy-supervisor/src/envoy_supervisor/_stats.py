"""Reading Envoy's statistics: the text of `/stats`, and which numbers mean open connections."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from envoy_supervisor._address import Address

MAX_STATS = 2_000_000
"""Entries kept of one answer; a large Envoy has some hundred thousand."""


def parse_stats(text: str) -> dict[str, int | str]:
    """The answer of `/stats` by name: counters and gauges as int, everything else as text.

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


def active_connections(
    stats: Mapping[str, int | str], own_listeners: Iterable[Address] = ()
) -> int | None:
    """Open downstream connections that stand for somebody's traffic; None if that is unknown.

    Left out are per-worker duplicates, Envoy's internal listeners, the admin interface and
    `own_listeners` (readiness and metrics, which are polled without end). Unknown it is when not
    even the admin listener reports: then the bootstrap's stats matcher hides these statistics.
    """
    ours = tuple(f"listener.{stat_address(address)}." for address in own_listeners)
    total: int | None = None
    for name, value in stats.items():
        if not (name.startswith("listener.") and name.endswith(".downstream_cx_active")):
            continue
        total = total or 0
        if name.startswith(("listener.admin.", "listener.envoy_internal_", *ours)):
            continue
        if ".worker_" in name or ".main_thread." in name or not isinstance(value, int):
            continue
        total += value
    return total


def stat_address(address: Address) -> str:
    """An address as Envoy writes it into statistic names: `:` becomes `_`."""
    return str(address).replace(":", "_")
