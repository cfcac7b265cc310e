"""Every instrument of the secret server, read from its state when somebody asks.

Imported only when there is a registry: the library costs memory that most agents can save.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from prometheus_client import CollectorRegistry
from prometheus_client.metrics_core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector


@dataclass(frozen=True, slots=True, kw_only=True)
class Counts:
    """The state at one moment."""

    subscribers: int
    out_of_sync: int
    refusals: int
    refused_connections: int
    overdue_bundles: int


class SecretMetrics(Collector):
    """The instruments of one server."""

    def __init__(self, counts: Callable[[], Counts]) -> None:
        self._counts = counts

    def collect(self) -> Iterable[Metric]:
        """Read the state once."""
        counts = self._counts()
        yield GaugeMetricFamily(
            "mesh_sds_subscribers", "Streams that ask for secrets.", counts.subscribers
        )
        yield GaugeMetricFamily(
            "mesh_sds_subscribers_out_of_sync",
            "Streams that have not accepted the last thing they were sent.",
            counts.out_of_sync,
        )
        yield CounterMetricFamily(
            "mesh_sds_refusals", "Secrets refused by subscribers.", counts.refusals
        )
        yield CounterMetricFamily(
            "mesh_sds_refused_connections",
            "Connections refused for who the peer is.",
            counts.refused_connections,
        )
        yield CounterMetricFamily(
            "mesh_sds_overdue_bundles",
            "Times certificates went out before a trust bundle was answered by everyone.",
            counts.overdue_bundles,
        )


def register(registry: CollectorRegistry, counts: Callable[[], Counts]) -> Callable[[], None]:
    """Put the instruments on a registry; returns what takes them off again."""
    metrics = SecretMetrics(counts)
    registry.register(metrics)
    return lambda: registry.unregister(metrics)
