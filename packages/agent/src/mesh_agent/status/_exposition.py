"""Prometheus' text format, as much of it as the agent needs.

Written here rather than imported: prometheus_client would add 2 MB to the memory of every agent
that is scraped; see docs/decisions/0006-metrics-text.md.
Format: https://prometheus.io/docs/instrumenting/exposition_formats/#text-based-format
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from types import MappingProxyType

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"
_NO_LABELS: Mapping[str, str] = MappingProxyType({})


class Kind(StrEnum):
    """The types of metrics."""

    COUNTER = "counter"
    GAUGE = "gauge"
    HISTOGRAM = "histogram"


@dataclass(frozen=True, slots=True, kw_only=True)
class Sample:
    """A value. suffix: follows the metric's name in the samples of a histogram."""

    value: float
    labels: Mapping[str, str] = field(default_factory=dict)
    suffix: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Metric:
    """All samples of one name, which is made of letters, digits and underscores.

    text: what the metric means, for people.
    """

    name: str
    kind: Kind
    text: str
    samples: tuple[Sample, ...]


def gauge(name: str, text: str, value: float, labels: Mapping[str, str] = _NO_LABELS) -> Metric:
    """Returns a gauge with one sample."""
    return Metric(
        name=name, kind=Kind.GAUGE, text=text, samples=(Sample(value=value, labels=labels),)
    )


def counter(name: str, text: str, value: float, labels: Mapping[str, str] = _NO_LABELS) -> Metric:
    """Returns a counter with one sample."""
    return Metric(
        name=name, kind=Kind.COUNTER, text=text, samples=(Sample(value=value, labels=labels),)
    )


def render(metrics: Iterable[Metric]) -> bytes:
    """Returns the text of a scrape; a metric without samples is left out."""
    lines = []
    for metric in metrics:
        if not metric.samples:
            continue
        lines.append(f"# HELP {metric.name} {_escaped(metric.text)}\n")
        lines.append(f"# TYPE {metric.name} {metric.kind}\n")
        lines += [
            f"{metric.name}{each.suffix}{_labels(each.labels)} {each.value}\n"
            for each in metric.samples
        ]
    return "".join(lines).encode()


def _labels(labels: Mapping[str, str]) -> str:
    if not labels:
        return ""
    quoted = (f'{name}="{_escaped(text, quote=True)}"' for name, text in labels.items())
    return "{" + ",".join(quoted) + "}"


def _escaped(text: str, *, quote: bool = False) -> str:
    text = text.replace("\\", "\\\\").replace("\n", "\\n")
    return text.replace('"', '\\"') if quote else text
