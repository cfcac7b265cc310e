"""Which of Envoy's statistics mean open connections that stand for traffic."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from envoy_supervisor._address import Address


def active_connections(
    stats: Mapping[str, int | str], own_listeners: Iterable[Address] = ()
) -> int | None:
    """Return the number of open downstream connections of traffic; None if that is unknown.

    Left out are per-worker duplicates, Envoy's internal listeners, the admin interface and
    `own_listeners` (readiness and metrics, which are polled without end). The number is unknown if
    not even the admin listener reports: the bootstrap's stats matcher hides these statistics.
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
    """Return an address as Envoy writes it into statistic names: `:` becomes `_`."""
    return str(address).replace(":", "_")
