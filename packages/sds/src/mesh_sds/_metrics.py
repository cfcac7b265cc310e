"""The metrics of the secret server, read from its state at each scrape.

Imported only when there is a registry, as the library for metrics costs memory.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from prometheus_client import CollectorRegistry
from prometheus_client.metrics_core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector


@dataclass(frozen=True, slots=True, kw_only=True)
class Counts:
    """The values of all metrics at one moment."""

    subscribers: int
    out_of_sync: int
    refusals: int
    refused_connections: int
    overdue_bundles: int


class SecretMetrics(Collector):
    """The metrics of one server."""

    def __init__(self, counts: Callable[[], Counts]) -> None:
        self._counts = counts

    def collect(self) -> Iterable[Metric]:
        """Yield every metric."""
        counts = self._counts()
        yield GaugeMetricFamily(
            "mesh_sds_subscribers", "Streams that ask for secrets.", counts.subscribers
        )
        yield GaugeMetricFamily(
            "mesh_sds_subscribers_out_of_sync",
            "Streams that have not accepted the newest version that they were sent.",
            counts.out_of_sync,
        )
        yield CounterMetricFamily(
            "mesh_sds_refusals", "Secrets refused by subscribers.", counts.refusals
        )
        yield CounterMetricFamily(
            "mesh_sds_refused_connections",
            "Connections refused because their process is not allowed.",
            counts.refused_connections,
        )
        yield CounterMetricFamily(
            "mesh_sds_overdue_bundles",
            "Times certificates were sent before every subscriber had answered a trust bundle.",
            counts.overdue_bundles,
        )


def register(registry: CollectorRegistry, counts: Callable[[], Counts]) -> Callable[[], None]:
    """Register the metrics; returns a function that unregisters them."""
    metrics = SecretMetrics(counts)
    registry.register(metrics)
    return lambda: registry.unregister(metrics)
