"""The advice on a whole mesh: warnings, and hints that only a check tells.

Each sort depends on objects of some kinds, and on the labels of workloads, and is found again as
soon as one of these differs: an edit of anything else costs a comparison. What is found at each
object by itself is found again at those that were edited.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from typing import NamedTuple

from istio_config import ConfigObject, Snapshot
from istio_config.kinds.destination_rule import DESTINATION_RULE
from istio_config.kinds.gateway import GATEWAY
from istio_config.kinds.gateway_api import GATEWAY as KUBERNETES_GATEWAY
from istio_config.kinds.kubernetes import KUBERNETES_SERVICE
from istio_config.kinds.registry import AnyKind
from istio_config.kinds.request_authentication import REQUEST_AUTHENTICATION
from istio_config.kinds.service_entry import SERVICE_ENTRY
from istio_config.kinds.virtual_service import VIRTUAL_SERVICE, VirtualServiceSpec
from mesh_configfile import Problem
from mesh_findings.advice._destinations import absent_ports, ambiguous_ports, unselecting_subsets
from mesh_findings.advice._gateways import (
    shared_certificates,
    unchecked_claims,
    unselecting_gateways,
    unserved_ports,
)
from mesh_findings.advice._mesh import Mesh, written
from mesh_findings.advice._patches import relative_patches
from mesh_findings.advice._ports import contradicting_protocols, unnamed_protocols
from mesh_findings.advice._selections import SELECTING, selected_twice
from mesh_findings.advice._targets import ATTACHED, absent_targets
from mesh_findings.reachability._by_object import Found, OfObjects
from mesh_findings.reachability._labels import Pods, same_labels
from mesh_model import MeshModel


class _Part(NamedTuple):
    """Finds one sort of warnings; kinds: of the objects that it looks at."""

    find: Callable[[Mesh], Iterator[Problem]]
    kinds: tuple[AnyKind, ...]
    by_labels: bool = True
    """Whether it looks at the labels of workloads, too."""


@dataclass(frozen=True, slots=True)  # no named tuple: it would be equal to a `_Part`
class _RoutesPart:
    """Finds one sort of warnings at VirtualServices one by one; kinds: of what else it looks at."""

    find: Callable[[Mesh, ConfigObject, VirtualServiceSpec], Iterator[Problem]]
    kinds: tuple[AnyKind, ...]
    by_labels: bool = True
    """Whether it looks at the labels of workloads, too."""


_SERVICES: tuple[AnyKind, ...] = (KUBERNETES_SERVICE, SERVICE_ENTRY)
_PARTS = (
    _Part(absent_targets, (*ATTACHED, KUBERNETES_GATEWAY)),
    _Part(contradicting_protocols, (SERVICE_ENTRY,), by_labels=False),
    _Part(selected_twice, SELECTING),
    _Part(shared_certificates, (GATEWAY,), by_labels=False),
    _Part(unselecting_gateways, (GATEWAY,)),
    _Part(unserved_ports, (GATEWAY, KUBERNETES_SERVICE)),
)
_OF_ROUTES = (
    _RoutesPart(absent_ports, (GATEWAY, *_SERVICES), by_labels=False),
    _RoutesPart(unchecked_claims, (GATEWAY, REQUEST_AUTHENTICATION)),
)
_HINTS: tuple[Callable[[Mesh], Iterator[Problem]], ...] = (
    ambiguous_ports,
    relative_patches,
    unnamed_protocols,
    unselecting_subsets,
)
_KINDS: tuple[AnyKind, ...] = tuple(
    dict.fromkeys(
        (VIRTUAL_SERVICE, *(kind for part in (*_PARTS, *_OF_ROUTES) for kind in part.kinds))
    )
)


@dataclass(frozen=True, kw_only=True)
class Advice:
    """The findings about a mesh, in order.

    hints: matters of style, and what is right for as long as nothing else changes. parts: the
    warnings by sort. of_routes: those of VirtualServices by sort. objects: those of each kind that
    is looked at.
    """

    model: MeshModel
    objects: Mapping[AnyKind, tuple[ConfigObject, ...]]
    parts: tuple[frozenset[Problem], ...]
    of_routes: tuple[OfObjects, ...]
    hints: tuple[Problem, ...] = ()

    @cached_property
    def warnings(self) -> tuple[Problem, ...]:
        """All that is probably not meant."""
        of_routes = (found for part in self.of_routes for found in part.warnings.values())
        return tuple(sorted(frozenset[Problem]().union(*self.parts, *of_routes)))


def advise(snapshot: Snapshot, model: MeshModel, before: Advice | None = None) -> Advice:
    """Find the warnings of a mesh that is served; before: those of an earlier model."""
    objects = {kind: snapshot.of_kind(kind) for kind in _KINDS}
    mesh = Mesh(objects, model)
    if before is None:
        return Advice(model=model, objects=objects, parts=_parts(mesh), of_routes=_of_routes(mesh))
    same: frozenset[AnyKind] = frozenset()
    labels = False
    if before.model.owners == model.owners and before.model.mesh_config == model.mesh_config:
        same = frozenset(kind for kind, each in objects.items() if before.objects[kind] == each)
        labels = same_labels(before.model, model)

    def is_same(part: _Part | _RoutesPart) -> bool:
        return same.issuperset(part.kinds) and (labels or not part.by_labels)

    return Advice(
        model=model,
        objects=objects,
        parts=tuple(
            known if is_same(part) else frozenset(part.find(mesh))
            for part, known in zip(_PARTS, before.parts, strict=True)
        ),
        of_routes=tuple(
            (known if is_same(part) else OfObjects()).after(
                objects[VIRTUAL_SERVICE], partial(_at_routes, part, mesh)
            )
            for part, known in zip(_OF_ROUTES, before.of_routes, strict=True)
        ),
    )


def _parts(mesh: Mesh) -> tuple[frozenset[Problem], ...]:
    return tuple(frozenset(part.find(mesh)) for part in _PARTS)


def _of_routes(mesh: Mesh) -> tuple[OfObjects, ...]:
    routes = mesh.objects[VIRTUAL_SERVICE]
    return tuple(OfObjects().after(routes, partial(_at_routes, part, mesh)) for part in _OF_ROUTES)


def _at_routes(part: _RoutesPart, mesh: Mesh, items: Sequence[ConfigObject]) -> Found:
    for item, spec in written(items, VIRTUAL_SERVICE):
        for problem in part.find(mesh, item, spec):
            yield item, problem


def advise_on(snapshot: Snapshot, model: MeshModel, pods: Pods) -> Advice:
    """Find all that is to be said of a mesh, for a check.

    pods: labels of workloads by namespace, beside those that the model knows.
    """
    objects = {kind: snapshot.of_kind(kind) for kind in (*_KINDS, DESTINATION_RULE)}
    mesh = Mesh(objects, model, pods)
    return Advice(
        model=model,
        objects=objects,
        parts=_parts(mesh),
        of_routes=_of_routes(mesh),
        hints=tuple(sorted({each for find in _HINTS for each in find(mesh)})),
    )
