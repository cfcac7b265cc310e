"""The advice on a whole mesh: warnings, and hints that only a check tells.

Each sort depends on objects of some kinds, and on the labels of workloads, and is found again as
soon as one of these differs: an edit of anything else costs a comparison.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

from istio_config import ConfigObject, Snapshot
from istio_config.kinds.destination_rule import DESTINATION_RULE
from istio_config.kinds.gateway import GATEWAY
from istio_config.kinds.gateway_api import GATEWAY as KUBERNETES_GATEWAY
from istio_config.kinds.kubernetes import KUBERNETES_SERVICE
from istio_config.kinds.registry import AnyKind
from istio_config.kinds.request_authentication import REQUEST_AUTHENTICATION
from istio_config.kinds.service_entry import SERVICE_ENTRY
from istio_config.kinds.virtual_service import VIRTUAL_SERVICE
from mesh_configfile import Problem
from mesh_findings.advice._destinations import absent_ports, ambiguous_ports, unselecting_subsets
from mesh_findings.advice._gateways import (
    shared_certificates,
    unchecked_claims,
    unselecting_gateways,
    unserved_ports,
)
from mesh_findings.advice._mesh import Mesh
from mesh_findings.advice._patches import relative_patches
from mesh_findings.advice._ports import contradicting_protocols, unnamed_protocols
from mesh_findings.advice._selections import SELECTING, selected_twice
from mesh_findings.advice._targets import ATTACHED, absent_targets
from mesh_findings.reachability._unmatched_labels import Pods, same_labels
from mesh_model import MeshModel


class _Part(NamedTuple):
    """Finds one sort of warnings; kinds: of the objects that it looks at."""

    find: Callable[[Mesh], Iterator[Problem]]
    kinds: tuple[AnyKind, ...]
    by_labels: bool = True
    """Whether it looks at the labels of workloads, too."""


_SERVICES: tuple[AnyKind, ...] = (KUBERNETES_SERVICE, SERVICE_ENTRY)
_PARTS = (
    _Part(absent_targets, (*ATTACHED, KUBERNETES_GATEWAY)),
    _Part(absent_ports, (VIRTUAL_SERVICE, GATEWAY, *_SERVICES), by_labels=False),
    _Part(contradicting_protocols, (SERVICE_ENTRY,), by_labels=False),
    _Part(selected_twice, SELECTING),
    _Part(shared_certificates, (GATEWAY,), by_labels=False),
    _Part(unchecked_claims, (VIRTUAL_SERVICE, GATEWAY, REQUEST_AUTHENTICATION)),
    _Part(unselecting_gateways, (GATEWAY,)),
    _Part(unserved_ports, (GATEWAY, KUBERNETES_SERVICE)),
)
_HINTS: tuple[Callable[[Mesh], Iterator[Problem]], ...] = (
    ambiguous_ports,
    relative_patches,
    unnamed_protocols,
    unselecting_subsets,
)
_KINDS: tuple[AnyKind, ...] = tuple(dict.fromkeys(kind for part in _PARTS for kind in part.kinds))


@dataclass(frozen=True, kw_only=True)
class Advice:
    """The findings about a mesh, in order.

    hints: matters of style, and what is right for as long as nothing else changes. parts: the
    warnings by sort. objects: those of each kind that is looked at.
    """

    model: MeshModel
    objects: Mapping[AnyKind, tuple[ConfigObject, ...]]
    parts: tuple[frozenset[Problem], ...]
    hints: tuple[Problem, ...] = ()

    @cached_property
    def warnings(self) -> tuple[Problem, ...]:
        """All that is probably not meant."""
        return tuple(sorted(frozenset[Problem]().union(*self.parts)))


def advise(snapshot: Snapshot, model: MeshModel, before: Advice | None = None) -> Advice:
    """Find the warnings of a mesh that is served; before: those of an earlier model."""
    objects = {kind: snapshot.of_kind(kind) for kind in _KINDS}
    same: frozenset[AnyKind] = frozenset()
    labels = False
    if (
        before is not None
        and before.model.owners == model.owners
        and before.model.mesh_config == model.mesh_config
    ):
        same = frozenset(kind for kind, each in objects.items() if before.objects[kind] == each)
        labels = same_labels(before.model, model)
    mesh = Mesh(objects, model)
    parts = tuple(
        before.parts[at]
        if before is not None and same.issuperset(part.kinds) and (labels or not part.by_labels)
        else frozenset(part.find(mesh))
        for at, part in enumerate(_PARTS)
    )
    return Advice(model=model, objects=objects, parts=parts)


def advise_on(snapshot: Snapshot, model: MeshModel, pods: Pods) -> Advice:
    """Find all that is to be said of a mesh, for a check.

    pods: labels of workloads by namespace, beside those that the model knows.
    """
    objects = {kind: snapshot.of_kind(kind) for kind in (*_KINDS, DESTINATION_RULE)}
    mesh = Mesh(objects, model, pods)
    return Advice(
        model=model,
        objects=objects,
        parts=tuple(frozenset(part.find(mesh)) for part in _PARTS),
        hints=tuple(sorted({each for find in _HINTS for each in find(mesh)})),
    )
