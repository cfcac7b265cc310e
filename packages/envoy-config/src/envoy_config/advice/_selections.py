"""Finds Sidecars and Telemetries of which several choose the same workload by its labels."""

from collections.abc import Iterator, Mapping

from envoy_config.advice._mesh import Mesh
from istio_config import ConfigObject
from istio_config.kinds.sidecar import SidecarSpec
from istio_config.kinds.telemetry import TelemetrySpec
from mesh_configfile import FieldPath, Problem


def selected_twice(mesh: Mesh) -> Iterator[Problem]:
    """Yield the later of two objects that choose a workload which is known in their namespace."""
    earlier: dict[tuple[str, str], list[tuple[ConfigObject, Mapping[str, str]]]] = {}
    for item in mesh.objects:
        found = _chosen(item)
        if found is None:
            continue
        path, labels = found
        others = earlier.setdefault((item.kind, item.namespace), [])
        for other, wanted in others:
            both = wanted.items() | labels.items()
            if any(both <= set(known) for known in mesh.workloads.get(item.namespace, ())):
                listed = ", ".join(f"{key}={value}" for key, value in sorted(both))
                yield item.problem(path, _message(item, other, listed), _code(item))
                break
        others.append((item, labels))


def _chosen(item: ConfigObject) -> tuple[FieldPath, Mapping[str, str]] | None:
    match item.spec:
        case SidecarSpec(workload_selector=selector) if selector is not None:
            path: FieldPath = ("spec", "workloadSelector", "labels")
            labels = selector.labels
        case TelemetrySpec(selector=chosen) if chosen is not None:
            path, labels = ("spec", "selector", "matchLabels"), chosen.match_labels
        case _:
            return None
    return (path, labels) if labels else None


def _code(item: ConfigObject) -> str:
    return "IST0110" if isinstance(item.spec, SidecarSpec) else "IST0159"


def _message(item: ConfigObject, other: ConfigObject, labels: str) -> str:
    said = f"{item.kind} {other.name} ({other.place}) chooses workloads with {labels}, too"
    if isinstance(item.spec, SidecarSpec):
        return f"{said}, comes first, and is the only one that they have; make it one Sidecar"
    return f"{said}: they have both, and this one overrides it; make it one Telemetry"
