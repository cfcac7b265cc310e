"""Metrics as values, and their text in both formats.

Written here rather than imported: prometheus_client would add 2 MB to the memory of every agent
that is scraped; see docs/decisions/0006-metrics-text.md.
Formats: https://prometheus.io/docs/instrumenting/exposition_formats/#text-based-format and
https://prometheus.io/docs/specs/om/open_metrics_spec/
"""

from collections.abc import Iterable, Mapping
from enum import StrEnum
from types import MappingProxyType

import msgspec

_NO_LABELS: Mapping[str, str] = MappingProxyType({})
_TOTAL = "_total"


class Kind(StrEnum):
    """The types of metrics."""

    COUNTER = "counter"
    GAUGE = "gauge"
    HISTOGRAM = "histogram"


class Sample(msgspec.Struct, frozen=True, kw_only=True):
    """A value. suffix: follows the metric's name in the samples of a histogram."""

    value: float
    labels: Mapping[str, str] = msgspec.field(default_factory=dict)
    suffix: str = ""


class Metric(msgspec.Struct, frozen=True, kw_only=True):
    """All samples of one name, which consists of letters, digits and underscores.

    text: what the metric means, for people.
    """

    name: str
    kind: Kind
    text: str
    samples: tuple[Sample, ...]


def gauge(name: str, text: str, value: float, labels: Mapping[str, str] = _NO_LABELS) -> Metric:
    """Return a gauge with one sample."""
    return Metric(
        name=name, kind=Kind.GAUGE, text=text, samples=(Sample(value=value, labels=labels),)
    )


def counter(name: str, text: str, value: float, labels: Mapping[str, str] = _NO_LABELS) -> Metric:
    """Return a counter with one sample."""
    return Metric(
        name=name, kind=Kind.COUNTER, text=text, samples=(Sample(value=value, labels=labels),)
    )


def render(metrics: Iterable[Metric], *, openmetrics: bool = False) -> bytes:
    """Return the text of a scrape; a metric without samples is left out.

    openmetrics: as OpenMetrics without its end, `# EOF`. The samples have the same names in both
    formats: a counter whose name does not end with `_total` has the type `unknown` there.
    """
    lines = []
    for metric in metrics:
        if not metric.samples:
            continue
        name, kind = metric.name, str(metric.kind)
        if openmetrics and metric.kind is Kind.COUNTER:
            kind = kind if name.endswith(_TOTAL) else "unknown"
            name = name.removesuffix(_TOTAL)
        lines.append(f"# HELP {name} {_escaped(metric.text, quote=openmetrics)}\n")
        lines.append(f"# TYPE {name} {kind}\n")
        lines += [
            f"{metric.name}{each.suffix}{_labels(each.labels)} {_number(each.value)}\n"
            for each in metric.samples
        ]
    return "".join(lines).encode()


def _number(value: float) -> str:
    text = str(value)
    return {"inf": "+Inf", "-inf": "-Inf", "nan": "NaN"}.get(text, text)


def _labels(labels: Mapping[str, str]) -> str:
    if not labels:
        return ""
    quoted = (f'{name}="{_escaped(text, quote=True)}"' for name, text in labels.items())
    return "{" + ",".join(quoted) + "}"


def _escaped(text: str, *, quote: bool = False) -> str:
    text = text.replace("\\", "\\\\").replace("\n", "\\n")
    return text.replace('"', '\\"') if quote else text
