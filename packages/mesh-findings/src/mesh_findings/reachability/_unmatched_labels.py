"""Finds rules for labels that nothing has, and looks again only where labels or rules changed.

The labels of a proxy are its own word, and a proxy that no object knows may have them. So rules are
looked at only where workloads of the namespace are known, and are no more than a warning.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from typing import TypeAlias

from envoy_config.plans import known_labels, same_objects
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
from mesh_findings.unused._virtual_services import destinations_of
from mesh_model import HostIndex, Labels, MeshModel, Rule, Service, changed_services, full_host

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
    VIRTUAL_SERVICE,
)


_REFERRING = (SidecarSpec, TelemetrySpec)
"""Of these, Istio calls a selector a reference, and of others a search for workloads."""
_OF_OWN_NAMESPACE = (ProxyConfigSpec,)
"""In the root namespace, a selector of these is for workloads there, and not for those of all."""


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


@dataclass(frozen=True, kw_only=True)
class Unmatched:
    """The warnings of a mesh about labels that nothing has, in order."""

    model: MeshModel
    objects: tuple[ConfigObject, ...]
    warnings: tuple[Problem, ...]


def unmatched(snapshot: Snapshot, model: MeshModel, before: Unmatched | None = None) -> Unmatched:
    """Find what is for labels that nothing has; before: what was found in an earlier model."""
    objects = tuple(each for kind in _KINDS for each in snapshot.of_kind(kind))
    if before is not None and before.objects == objects and same_labels(before.model, model):
        return Unmatched(model=model, objects=objects, warnings=before.warnings)
    found = {*selections_of_nothing(objects, model), *empty_subsets(model)}
    return Unmatched(model=model, objects=objects, warnings=tuple(sorted(found)))


def empty_subsets(model: MeshModel, pods: Pods = NO_PODS) -> Iterator[Problem]:
    """Yield the destinations of VirtualServices whose subset has none of the host's endpoints.

    Of a service without a known endpoint nothing is said. pods: labels of further workloads.
    """
    labels: dict[str, set[Labels]] = {}
    for service in model.services:
        known = labels.setdefault(service.host, set())
        known.update(each.labels for each in service.endpoints)
        known.update(selected_pods(service, pods))
    # Many rules name many hosts: each lookup is one of an index, and each subset is looked at once.
    rules = HostIndex((each.host, each) for each in model.destination_rules.rules if each.subsets)
    reasons: dict[tuple[str, str], str | None] = {}
    for item in model.rules.of_kind(VIRTUAL_SERVICE):
        for path, destination in destinations_of(item.spec):
            if not destination.subset:
                continue
            host = full_host(destination.host, item.namespace, model.domain)
            key = host, destination.subset
            if key not in reasons:
                reasons[key] = _emptiness(destination.subset, labels.get(host, ()), rules, host)
            if (empty := reasons[key]) is not None:
                yield item.problem((*path, "subset"), empty, "IST0173")


def _emptiness(
    name: str, known: Collection[Labels], rules: HostIndex[Rule], host: str
) -> str | None:
    """Return why requests to a subset have no endpoint; None if they have, or it is not known.

    known: the labels of the host's endpoints. Rules of all namespaces count: which of them a client
    has is its own, and what none of them can reach is wrong for all.
    """
    wanted = [
        rule.subsets[name].labels
        for of_name in rules.matching(host)
        for rule in of_name
        if name in rule.subsets
    ]
    there = LabelIndex(known)
    if not there or not wanted or any(map(there.has_any, wanted)):
        return None
    labels = " or ".join(
        ", ".join(f"{key}={value}" for key, value in sorted(each.items())) for each in wanted
    )
    return (
        f'no endpoint of {host} has the labels of the subset "{name}", '
        f"{labels}: what is sent there is answered with 503, or closed"
    )


def selected_pods(service: Service, pods: Pods) -> Iterator[Labels]:
    """Yield the labels of the pods that a service selects."""
    wanted = set(service.selector)
    if wanted:
        yield from (each for each in pods.get(service.namespace, ()) if wanted <= set(each))


def selections_of_nothing(
    objects: Iterable[ConfigObject], model: MeshModel, pods: Pods = NO_PODS
) -> Iterator[Problem]:
    """Yield a warning for each object whose labels no known workload of its namespace has.

    pods: labels of workloads by namespace, beside those that the model knows.
    """
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
            yield item.problem(
                path,
                f"no workload that is known in namespace {item.namespace} has the labels {wanted}: "
                "it holds for none of them",
                "IST0101" if isinstance(item.spec, _REFERRING) else "IST0127",
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
