"""The metrics of Wasm filters; loaded only where there is one. Names are Istio's."""

from collections.abc import Iterator, Mapping

import wasm_modules
from mesh_status_server import Kind, Metric, Sample, gauge

_PREFIX = "istio_agent_wasm_"


def wasm_metrics(counters: wasm_modules.Counters) -> Iterator[Metric]:
    """The metrics of the modules, and of the filters that were given them."""
    yield gauge(f"{_PREFIX}cache_entries", "Modules in the cache.", counters.entries)
    lookups = {"true": counters.hits, "false": counters.misses}
    yield _labelled("cache_lookup_count", "Modules that were asked for.", "hit", lookups)
    fetches = {str(result): number for result, number in counters.fetches.items()}
    yield _labelled("remote_fetch_count", "Fetches, by how they ended.", "result", fetches)
    conversions = {str(result): number for result, number in counters.conversions.items()}
    yield _labelled(
        "config_conversion_count",
        "Filters looked at, by what became of them.",
        "result",
        conversions,
    )
    yield _durations(counters.durations)


def _labelled(name: str, text: str, label: str, values: Mapping[str, int]) -> Metric:
    samples = tuple(Sample(value=number, labels={label: each}) for each, number in values.items())
    return Metric(name=f"{_PREFIX}{name}", kind=Kind.COUNTER, text=text, samples=samples)


def _durations(durations: wasm_modules.Durations) -> Metric:
    bounds = [*(f"{bound:g}" for bound in wasm_modules.DURATION_BUCKETS_MS), "+Inf"]
    total, samples = 0, []
    for bound, number in zip(bounds, durations.buckets, strict=True):
        total += number
        samples.append(Sample(value=total, labels={"le": bound}, suffix="_bucket"))
    samples.append(Sample(value=durations.sum_ms, suffix="_sum"))
    samples.append(Sample(value=total, suffix="_count"))
    return Metric(
        name=f"{_PREFIX}config_conversion_duration",
        kind=Kind.HISTOGRAM,
        text="Milliseconds from a filter's coming to its rewritten form.",
        samples=tuple(samples),
    )
