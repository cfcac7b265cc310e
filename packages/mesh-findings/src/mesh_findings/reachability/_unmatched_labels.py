"""Finds rules for labels that nothing has, and looks again only where labels or rules changed.

The labels of a proxy are its own word, and a proxy that no object knows may have them. So rules are
looked at only where workloads of the namespace are known, and are no more than a warning.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property

from envoy_config.plans import known_labels
from istio_config import ConfigObject, Snapshot
from istio_config.kinds.authorization_policy import AUTHORIZATION_POLICY, AuthorizationPolicySpec
from istio_config.kinds.destination_rule import DESTINATION_RULE, DestinationRuleSpec
from istio_config.kinds.envoy_filter import ENVOY_FILTER, EnvoyFilterSpec
from istio_config.kinds.peer_authentication import PEER_AUTHENTICATION, PeerAuthenticationSpec
from istio_config.kinds.proxy_config import PROXY_CONFIG, ProxyConfigSpec
from istio_config.kinds.registry import AnyKind
from istio_config.kinds.request_authentication import (
    REQUEST_AUTHENTICATION,
    RequestAuthenticationSpec,
)
from istio_config.kinds.sidecar import SIDECAR, SidecarSpec
from istio_config.kinds.telemetry import TELEMETRY, TelemetrySpec
from istio_config.kinds.traffic_extension import (
    EXTENSION_KINDS,
    TrafficExtensionSpec,
    WasmPluginSpec,
)
from istio_config.kinds.virtual_service import VIRTUAL_SERVICE
from mesh_configfile import FieldPath, Problem
from mesh_findings.reachability._by_object import Found, OfObjects
from mesh_findings.reachability._empty_subsets import empty_subsets_of
from mesh_findings.reachability._labels import NO_PODS, LabelIndex, Pods, same_labels
from mesh_model import MeshModel

_KINDS: tuple[AnyKind, ...] = (
    PEER_AUTHENTICATION,
    AUTHORIZATION_POLICY,
    REQUEST_AUTHENTICATION,
    TELEMETRY,
    *EXTENSION_KINDS,
    PROXY_CONFIG,
    DESTINATION_RULE,
    SIDECAR,
    ENVOY_FILTER,
)


_REFERRING = (SidecarSpec, TelemetrySpec)
"""Of these, Istio calls a selector a reference, and of others a search for workloads."""
_OF_OWN_NAMESPACE = (ProxyConfigSpec,)
"""In the root namespace, a selector of these is for workloads there, and not for those of all."""


@dataclass(frozen=True, kw_only=True)
class Unmatched:
    """The warnings of a mesh about labels that nothing has."""

    model: MeshModel
    selections: OfObjects
    """Of objects for workloads by their labels."""
    subsets: OfObjects
    """Of VirtualServices."""

    @cached_property
    def warnings(self) -> tuple[Problem, ...]:
        """All of them, in order."""
        parts = (self.selections.warnings, self.subsets.warnings)
        return tuple(
            sorted({each for part in parts for of_key in part.values() for each in of_key})
        )


def unmatched(snapshot: Snapshot, model: MeshModel, before: Unmatched | None = None) -> Unmatched:
    """Find what is for labels that nothing has; before: what was found in an earlier model.

    While labels are the same, an edit has only the objects looked at that it is of.
    """
    selections = subsets = OfObjects()
    if before is not None and same_labels(before.model, model):
        selections = before.selections
        if before.model.destination_rules is model.destination_rules:
            subsets = before.subsets
    objects = tuple(each for kind in _KINDS for each in snapshot.of_kind(kind))
    routes = model.rules.of_kind(VIRTUAL_SERVICE)
    return Unmatched(
        model=model,
        selections=selections.after(objects, lambda items: _selections_of_nothing(items, model)),
        subsets=subsets.after(routes, lambda items: empty_subsets_of(items, model)),
    )


def selections_of_nothing(
    objects: Iterable[ConfigObject], model: MeshModel, pods: Pods = NO_PODS
) -> Iterator[Problem]:
    """Yield a warning for each object whose labels no known workload of its namespace has.

    pods: labels of workloads by namespace, beside those that the model knows.
    """
    return (problem for _, problem in _selections_of_nothing(objects, model, pods))


def _selections_of_nothing(
    objects: Iterable[ConfigObject], model: MeshModel, pods: Pods = NO_PODS
) -> Found:
    root = model.mesh_config.root_namespace
    objects = tuple(objects)
    undecided = {each.namespace for each in objects if _has_unread_labels(each)}
    selections = [
        (item, *found)
        for item in objects
        if (item.namespace != root or isinstance(item.spec, _OF_OWN_NAMESPACE))
        and item.namespace not in undecided
        if (found := _selection(item)) is not None
    ]
    known = known_labels(model, {item.namespace for item, *_ in selections})
    indices = {
        namespace: LabelIndex({*labels, *pods.get(namespace, ())})
        for namespace, labels in known.items()
    }
    for item, path, labels in selections:
        workloads = indices[item.namespace]
        if workloads and not workloads.has_any(labels):
            wanted = ", ".join(f"{key}={value}" for key, value in sorted(labels.items()))
            yield (
                item,
                item.problem(
                    path,
                    f"no workload that is known in namespace {item.namespace} has the labels "
                    f"{wanted}: it holds for none of them",
                    "IST0101" if isinstance(item.spec, _REFERRING) else "IST0127",
                ),
            )


def _selection(item: ConfigObject) -> tuple[FieldPath, Mapping[str, str]] | None:
    """Return the labels of workloads that an object is for, and their field; None for all."""
    labels: Mapping[str, str]
    match item.spec:
        case (
            PeerAuthenticationSpec(selector=selector)
            | AuthorizationPolicySpec(selector=selector)
            | RequestAuthenticationSpec(selector=selector)
            | TelemetrySpec(selector=selector)
            | TrafficExtensionSpec(selector=selector)
            | WasmPluginSpec(selector=selector)
            | ProxyConfigSpec(selector=selector)
        ) if selector is not None:
            path, labels = ("spec", "selector", "matchLabels"), selector.match_labels
        case DestinationRuleSpec(workload_selector=by_match) if by_match is not None:
            path, labels = ("spec", "workloadSelector", "matchLabels"), by_match.match_labels
        case (
            SidecarSpec(workload_selector=by_labels) | EnvoyFilterSpec(workload_selector=by_labels)
        ) if by_labels is not None:
            path, labels = ("spec", "workloadSelector", "labels"), by_labels.labels
        case _:
            return None
    return (path, labels) if labels else None


def _has_unread_labels(item: ConfigObject) -> bool:
    """Return whether an object may be a workload with other labels than were read."""
    return any("labels" in path or "endpoints" in path for path in item.unread)
