"""Finds Sidecars, Telemetries and ProxyConfigs that choose the same workload by its labels."""

from collections.abc import Iterator, Mapping
from typing import NamedTuple

from istio_config import ConfigObject
from istio_config.kinds.proxy_config import PROXY_CONFIG, ProxyConfigSpec
from istio_config.kinds.registry import AnyKind
from istio_config.kinds.sidecar import SIDECAR, SidecarSpec
from istio_config.kinds.telemetry import TELEMETRY, TelemetrySpec
from mesh_configfile import FieldPath, Problem
from mesh_findings.advice._mesh import Mesh

SELECTING: tuple[AnyKind, ...] = (PROXY_CONFIG, SIDECAR, TELEMETRY)
"""The kinds of these objects."""


def selected_twice(mesh: Mesh) -> Iterator[Problem]:
    """Yield the later of two objects that choose a workload which is known in their namespace."""
    by_label: dict[tuple[str, str, tuple[str, str]], list[_Choice]] = {}
    items = (each for kind in SELECTING for each, _ in mesh.of_kind(kind))
    for at, item in enumerate(items):
        if (found := _chosen(item)) is not None:
            path, labels = found
            # A workload that it chooses has this label among others.
            one = min(labels.items())
            choice = _Choice(at, item, path, frozenset(labels.items()))
            by_label.setdefault((item.kind, item.namespace, one), []).append(choice)
    for kind, namespace in sorted({key[:2] for key in by_label}):
        for known in mesh.workloads.get(namespace, ()):
            choices = sorted(
                each
                for label in known
                for each in by_label.get((kind, namespace, label), ())
                if each.labels <= set(known)
            )
            for each in choices[1:]:
                yield each.item.problem(
                    each.path, _message(each.item, choices[0].item), _code(each.item)
                )


class _Choice(NamedTuple):
    at: int
    """Its place among the objects, the oldest first."""
    item: ConfigObject
    path: FieldPath
    labels: frozenset[tuple[str, str]]


def _chosen(item: ConfigObject) -> tuple[FieldPath, Mapping[str, str]] | None:
    match item.spec:
        case SidecarSpec(workload_selector=selector) if selector is not None:
            path: FieldPath = ("spec", "workloadSelector", "labels")
            labels = selector.labels
        case TelemetrySpec(selector=chosen) | ProxyConfigSpec(selector=chosen) if (
            chosen is not None
        ):
            path, labels = ("spec", "selector", "matchLabels"), chosen.match_labels
        case _:
            return None
    return (path, labels) if labels else None


def _code(item: ConfigObject) -> str:
    match item.spec:
        case SidecarSpec():
            return "IST0110"
        case TelemetrySpec():
            return "IST0159"
        case _:
            return ""


def _message(item: ConfigObject, other: ConfigObject) -> str:
    said = f"{item.kind} {other.name} ({other.place}) chooses some of the same workloads"
    if isinstance(item.spec, TelemetrySpec):
        return f"{said}: they have both, and this one overrides it; make it one Telemetry"
    return f"{said}, comes first, and is the only one that they have; make it one {item.kind}"
