"""Metrics of a supervised Envoy, on a registry that is passed in.

envoy_state                      1 for the state it is in, 0 for the others      state
envoy_epoch                      hot restarts that led to the serving process, since a start
envoy_retiring                   old processes that still finish requests
envoy_retained_sockets           listening sockets that are held open in case Envoy dies
envoy_start_time_seconds         when the serving process started, Unix time; absent without one
envoy_restarts_total             hot restarts that succeeded
envoy_restarts_refused_total     restarts that were refused or given up
envoy_crashes_total              ends that were not asked for
envoy_sockets_handed_over_total  sockets on which connections waited for a new Envoy after a crash
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Protocol

from prometheus_client import CollectorRegistry
from prometheus_client.metrics_core import CounterMetricFamily, GaugeMetricFamily, Metric

from envoy_supervisor._config import EnvoyState
from envoy_supervisor._envoy import EnvoyStatus


class HasStatus(Protocol):
    """An `Envoy`, or another object with its status."""

    @property
    def status(self) -> EnvoyStatus:
        """One snapshot."""


class EnvoyMetrics:
    """Exposes the Envoy given to `show` on `registry`. Values are read when they are collected."""

    def __init__(self, registry: CollectorRegistry, *, prefix: str = "mesh_agent_") -> None:
        self._prefix = prefix
        self._envoy: HasStatus | None = None
        registry.register(self)

    def show(self, envoy: HasStatus) -> None:
        """Exposes this Envoy from now on, instead of the one before."""
        self._envoy = envoy

    def collect(self) -> Iterator[Metric]:
        """Yield the metrics, all from one snapshot."""
        if self._envoy is None:
            return
        status = self._envoy.status
        state = GaugeMetricFamily(
            f"{self._prefix}envoy_state", "1 for the state Envoy is in.", labels=["state"]
        )
        for each in EnvoyState:
            state.add_metric([each.value], float(status.state is each))
        yield state
        gauges: list[tuple[str, str, float]] = [
            ("epoch", "How many hot restarts led to the serving process.", status.epoch),
            ("retiring", "Old processes that still finish requests.", status.retiring),
            (
                "retained_sockets",
                "Listening sockets held in case Envoy dies.",
                status.retained_sockets,
            ),
        ]
        if status.pid is not None and (started := start_time(status.pid)) is not None:
            gauges.append(("start_time_seconds", "When the serving process started.", started))
        for name, text, value in gauges:
            yield GaugeMetricFamily(f"{self._prefix}envoy_{name}", text, value=value)
        for name, text, count in (
            ("restarts", "Hot restarts that succeeded.", status.restarts),
            ("restarts_refused", "Restarts that were refused or given up.", status.refused),
            ("crashes", "Ends that were not asked for.", status.crashes),
            (
                "sockets_handed_over",
                "HotRestartSockets on which connections waited for a new Envoy.",
                status.handed_over,
            ),
        ):
            yield CounterMetricFamily(f"{self._prefix}envoy_{name}", text, value=count)


def start_time(pid: int, *, proc: Path = Path("/proc")) -> float | None:
    """Return when a process was started, as Unix time; None if there is none of that number."""
    try:
        process = (proc / str(pid) / "stat").read_bytes()
        machine = (proc / "stat").read_bytes()
    except OSError:
        return None
    # The name, in parentheses, may hold anything; the start is the 20th field behind it, proc(5).
    ticks = int(process.rpartition(b")")[2].split()[19])
    booted = next(int(line.split()[1]) for line in machine.splitlines() if line[:6] == b"btime ")
    return booted + ticks / os.sysconf("SC_CLK_TCK")
