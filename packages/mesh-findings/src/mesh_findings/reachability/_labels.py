"""The labels of workloads and endpoints: looked up, and compared between two models."""

from collections.abc import Iterable, Mapping
from collections.abc import Set as AbstractSet
from typing import TypeAlias

from envoy_config.plans import same_objects
from mesh_model import Labels, MeshModel, Service, changed_services

Pods: TypeAlias = Mapping[str, AbstractSet[Labels]]
"""Labels of workloads by namespace, that no object of the model is for."""
NO_PODS: Pods = {}


class LabelIndex:
    """Labels of workloads or endpoints, by each key with its value.

    A lookup costs nothing of how many there are.
    """

    def __init__(self, known: Iterable[Labels]) -> None:
        self._having: dict[tuple[str, str], set[int]] = {}
        self._count = 0
        for number, labels in enumerate(dict.fromkeys(known)):
            self._count += 1
            for pair in labels:
                self._having.setdefault(pair, set()).add(number)

    def __bool__(self) -> bool:
        """Return whether there are any, with labels or without."""
        return self._count > 0

    def has_any(self, wanted: Mapping[str, str]) -> bool:
        """Return whether one has all of these labels."""
        having = [self._having.get(pair, set()) for pair in wanted.items()]
        return bool(set.intersection(*having)) if having else bool(self)


def same_labels(old: MeshModel, new: MeshModel) -> bool:
    """Return whether the known workloads and endpoints of two models have the same labels."""
    return (
        old.mesh_config == new.mesh_config
        and same_objects(old, new)
        and old.gateways is new.gateways
        and all(
            _labels(before) == _labels(after)
            for before, after in changed_services(old, new).pairs.values()
        )
    )


def _labels(service: Service | None) -> frozenset[tuple[str, Labels]]:
    endpoints = service.endpoints if service is not None else ()
    return frozenset((each.namespace, each.labels) for each in endpoints)
