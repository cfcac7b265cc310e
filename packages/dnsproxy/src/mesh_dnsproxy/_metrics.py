"""The counters as Prometheus metrics, on a registry of prometheus_client that is passed in.

Istio's names: dns_requests_total, dns_upstream_requests_total, dns_upstream_failures_total,
dns_upstream_request_duration_seconds. Ours, with the label `type` (the type of the question):
dns_table_hits_total, dns_cache_hits_total, dns_cache_misses_total, dns_stale_answers_total,
dns_coalesced_queries_total; with `rcode` dns_error_answers_total (of this server, not of an
upstream); with `reason` dns_dropped_total; and dns_internal_errors_total, dns_gave_way_total,
dns_table_hosts, dns_cache_entries, dns_cache_bytes, dns_tcp_connections,
dns_tcp_closed_idle_total.
"""

from collections.abc import Callable, Iterator, Mapping
from typing import NamedTuple

from prometheus_client import CollectorRegistry
from prometheus_client.metrics_core import (
    CounterMetricFamily,
    GaugeMetricFamily,
    HistogramMetricFamily,
    Metric,
)

from mesh_dnsproxy._counts import DURATION_BUCKETS_S, ByType, Counts


class Sizes(NamedTuple):
    """The sizes of the table and the cache at this moment."""

    table_hosts: int
    cache_entries: int
    cache_bytes: int


class DnsMetrics:
    """A collector of a registry; exports the counters."""

    def __init__(
        self, counts: Counts, sizes: Callable[[], Sizes], *, prefix: str = "istio_agent_"
    ) -> None:
        self._counts = counts
        self._sizes = sizes
        self._prefix = f"{prefix}dns_"

    def collect(self) -> Iterator[Metric]:
        """Return the metrics with the values of this moment."""
        counts, sizes = self._counts, self._sizes()
        yield self._counter("requests", "Queries received.", counts.requests)
        yield self._counter(
            "upstream_requests", "Questions put to upstreams.", counts.upstream_requests
        )
        yield self._counter(
            "upstream_failures", "Questions no upstream answered.", counts.upstream_failures
        )
        yield self._durations()
        for kind in ByType:
            yield self._labelled(
                kind.value, f"Queries by type: {kind.value}.", "type", counts.by_type(kind)
            )
        errors = {str(rcode): count for rcode, count in sorted(counts.error_answers.items())}
        yield self._labelled("error_answers", "Error answers of this server.", "rcode", errors)
        dropped = {reason.value: count for reason, count in counts.dropped.items()}
        yield self._labelled("dropped", "Packets without an answer.", "reason", dropped)
        yield self._counter(
            "internal_errors",
            "Queries that failed by a bug.",
            counts.internal_errors,
        )
        yield self._counter(
            "gave_way",
            "Questions, queries and connections that made room for those of other clients.",
            counts.gave_way,
        )
        yield self._counter(
            "tcp_closed_idle", "TCP connections closed as idle.", counts.tcp_closed_idle
        )
        yield self._gauge("tcp_connections", "TCP connections.", counts.tcp_connections)
        yield self._gauge("table_hosts", "Names in the table.", sizes.table_hosts)
        yield self._gauge("cache_entries", "Replies that are kept.", sizes.cache_entries)
        yield self._gauge("cache_bytes", "Memory of the replies kept.", sizes.cache_bytes)

    def _counter(self, name: str, text: str, value: float) -> Metric:
        return CounterMetricFamily(f"{self._prefix}{name}", text, value=value)

    def _gauge(self, name: str, text: str, value: float) -> Metric:
        return GaugeMetricFamily(f"{self._prefix}{name}", text, value=value)

    def _labelled(self, name: str, text: str, label: str, values: Mapping[str, int]) -> Metric:
        metric = CounterMetricFamily(f"{self._prefix}{name}", text, labels=[label])
        for value, count in values.items():
            metric.add_metric([value], count)
        return metric

    def _durations(self) -> Metric:
        counts = self._counts
        bounds = [*(str(bound) for bound in DURATION_BUCKETS_S), "+Inf"]
        total = 0
        buckets = []
        for bound, count in zip(bounds, counts.duration_buckets, strict=True):
            total += count
            buckets.append((bound, float(total)))
        return HistogramMetricFamily(
            f"{self._prefix}upstream_request_duration_seconds",
            "From a question's sending to its answer.",
            buckets=buckets,
            sum_value=counts.duration_sum_s,
        )


def registered(
    registry: CollectorRegistry, counts: Counts, sizes: Callable[[], Sizes]
) -> Callable[[], None]:
    """Register the counters; returns a function that ends that."""
    metrics = DnsMetrics(counts, sizes)
    registry.register(metrics)
    return lambda: registry.unregister(metrics)
