"""The DNS server's metrics; loaded only by an agent that answers DNS. Names are Istio's."""

from collections.abc import Iterator

import mesh_dnsproxy
from mesh_dnsproxy import ByType, Counts
from mesh_status_server import Kind, Metric, Sample, counter

_TEXTS = {
    ByType.TABLE_HITS: "Queries answered from the name table, by type.",
    ByType.CACHE_HITS: "Queries answered from the cache of upstream answers, by type.",
    ByType.CACHE_MISSES: "Queries for which an upstream was asked, by type.",
    ByType.STALE: "Queries answered with an expired record because no upstream answered, by type.",
    ByType.COALESCED: "Queries that waited for another's answer, by type.",
}
_PREFIX = "istio_agent_dns_"


def dns_metrics(counts: Counts) -> Iterator[Metric]:
    """The metrics of the DNS server."""
    yield counter(f"{_PREFIX}requests_total", "DNS queries.", counts.requests)
    yield counter(
        f"{_PREFIX}upstream_requests_total", "Questions put to upstreams.", counts.upstream_requests
    )
    yield counter(
        f"{_PREFIX}upstream_failures_total",
        "Questions that no upstream answered.",
        counts.upstream_failures,
    )
    yield _durations(counts)
    for kind in ByType:
        yield _labelled(f"{_PREFIX}{kind}_total", _TEXTS[kind], "type", counts.by_type(kind))
    errors = {str(code): number for code, number in sorted(counts.error_answers.items())}
    yield _labelled(
        f"{_PREFIX}error_answers_total",
        "Error answers made by the agent, by code.",
        "rcode",
        errors,
    )
    dropped = {str(reason): number for reason, number in counts.dropped.items()}
    yield _labelled(f"{_PREFIX}dropped_total", "Packets that were not answered.", "reason", dropped)


def _labelled(name: str, text: str, label: str, values: dict[str, int]) -> Metric:
    samples = tuple(Sample(value=number, labels={label: each}) for each, number in values.items())
    return Metric(name=name, kind=Kind.COUNTER, text=text, samples=samples)


def _durations(counts: Counts) -> Metric:
    bounds = [*(f"{bound:g}" for bound in mesh_dnsproxy.DURATION_BUCKETS_S), "+Inf"]
    total, samples = 0, []
    for bound, number in zip(bounds, counts.duration_buckets, strict=True):
        total += number
        samples.append(Sample(value=total, labels={"le": bound}, suffix="_bucket"))
    samples.append(Sample(value=counts.duration_sum_s, suffix="_sum"))
    samples.append(Sample(value=total, suffix="_count"))
    return Metric(
        name=f"{_PREFIX}upstream_request_duration_seconds",
        kind=Kind.HISTOGRAM,
        text="Seconds from a question to its upstream's answer.",
        samples=tuple(samples),
    )
