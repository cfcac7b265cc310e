"""The advice on a whole mesh: warnings, and hints that only a check tells.

It depends on objects and on the labels of workloads, and is found again as soon as one of these
differs: an edit of anything else costs a comparison.
"""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

from envoy_config.advice._destinations import absent_ports, ambiguous_ports, unselecting_subsets
from envoy_config.advice._gateways import shared_certificates, unchecked_claims, unserved_ports
from envoy_config.advice._mesh import Mesh
from envoy_config.advice._patches import relative_patches
from envoy_config.advice._ports import contradicting_protocols, unnamed_protocols
from envoy_config.advice._selections import selected_twice
from envoy_config.reachability import Pods, same_labels
from istio_config import ConfigObject, Snapshot
from istio_config.kinds.destination_rule import DESTINATION_RULE
from istio_config.kinds.envoy_filter import ENVOY_FILTER
from istio_config.kinds.gateway import GATEWAY
from istio_config.kinds.kubernetes import KUBERNETES_SERVICE
from istio_config.kinds.registry import AnyKind
from istio_config.kinds.request_authentication import REQUEST_AUTHENTICATION
from istio_config.kinds.service_entry import SERVICE_ENTRY
from istio_config.kinds.sidecar import SIDECAR
from istio_config.kinds.telemetry import TELEMETRY
from istio_config.kinds.virtual_service import VIRTUAL_SERVICE
from mesh_configfile import Problem
from mesh_model import MeshModel

_KINDS: tuple[AnyKind, ...] = (
    DESTINATION_RULE,
    GATEWAY,
    KUBERNETES_SERVICE,
    REQUEST_AUTHENTICATION,
    SERVICE_ENTRY,
    SIDECAR,
    TELEMETRY,
    VIRTUAL_SERVICE,
)
_WARNINGS: tuple[Callable[[Mesh], Iterator[Problem]], ...] = (
    absent_ports,
    contradicting_protocols,
    selected_twice,
    shared_certificates,
    unchecked_claims,
    unselecting_subsets,
    unserved_ports,
)
_HINTS: tuple[Callable[[Mesh], Iterator[Problem]], ...] = (
    ambiguous_ports,
    relative_patches,
    unnamed_protocols,
)


@dataclass(frozen=True, kw_only=True)
class Advice:
    """The findings about a mesh, in order.

    hints: matters of style, and what is right for as long as nothing else changes.
    """

    model: MeshModel
    objects: tuple[ConfigObject, ...]
    warnings: tuple[Problem, ...]
    hints: tuple[Problem, ...] = ()


def advise(snapshot: Snapshot, model: MeshModel, before: Advice | None = None) -> Advice:
    """Find the warnings of a mesh that is served; before: those of an earlier model."""
    objects = tuple(each for kind in _KINDS for each in snapshot.of_kind(kind))
    if (
        before is not None
        and before.objects == objects
        and before.model.owners == model.owners
        and same_labels(before.model, model)
    ):
        return Advice(model=model, objects=objects, warnings=before.warnings)
    warnings = _found(_WARNINGS, Mesh(objects, model))
    return Advice(model=model, objects=objects, warnings=warnings)


def advise_on(snapshot: Snapshot, model: MeshModel, pods: Pods) -> Advice:
    """Find all that is to be said of a mesh, for a check.

    pods: labels of workloads by namespace, beside those that the model knows.
    """
    kinds = (*_KINDS, ENVOY_FILTER)
    mesh = Mesh((each for kind in kinds for each in snapshot.of_kind(kind)), model, pods)
    return Advice(
        model=model,
        objects=mesh.objects,
        warnings=_found(_WARNINGS, mesh),
        hints=_found(_HINTS, mesh),
    )


def _found(parts: Iterable[Callable[[Mesh], Iterator[Problem]]], mesh: Mesh) -> tuple[Problem, ...]:
    return tuple(sorted({each for find in parts for each in find(mesh)}))
