"""Prometheus' text format, as much of it as the agent needs.

Written here rather than imported: prometheus_client would add 2 MB to every agent that is
scraped; see docs/decisions/0006-metrics-text.md.
Format: https://prometheus.io/docs/instrumenting/exposition_formats/#text-based-format
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from types import MappingProxyType

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"
_NO_LABELS: Mapping[str, str] = MappingProxyType({})


class Kind(StrEnum):
    """What a value does over time."""

    COUNTER = "counter"
    GAUGE = "gauge"
    HISTOGRAM = "histogram"


@dataclass(frozen=True, slots=True, kw_only=True)
class Sample:
    """A value. suffix: what a histogram's samples have behind the family's name."""

    value: float
    labels: Mapping[str, str] = field(default_factory=dict)
    suffix: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Family:
    """All samples of one name, which is made of letters, digits and underscores."""

    name: str
    kind: Kind
    text: str
    samples: tuple[Sample, ...]


def gauge(name: str, text: str, value: float, labels: Mapping[str, str] = _NO_LABELS) -> Family:
    """A gauge with one sample."""
    return Family(
        name=name, kind=Kind.GAUGE, text=text, samples=(Sample(value=value, labels=labels),)
    )


def counter(name: str, text: str, value: float, labels: Mapping[str, str] = _NO_LABELS) -> Family:
    """A counter with one sample."""
    return Family(
        name=name, kind=Kind.COUNTER, text=text, samples=(Sample(value=value, labels=labels),)
    )


def render(families: Iterable[Family]) -> bytes:
    """The text; a family without samples is left out."""
    lines = []
    for family in families:
        if not family.samples:
            continue
        lines.append(f"# HELP {family.name} {_escaped(family.text)}\n")
        lines.append(f"# TYPE {family.name} {family.kind}\n")
        lines += [
            f"{family.name}{each.suffix}{_labels(each.labels)} {each.value}\n"
            for each in family.samples
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
