"""Finds rules for workloads of certain labels of which no known workload has them.

The labels of a proxy are its own word, and a proxy that no object knows may have them. So it is
judged only where workloads of the namespace are known, and no more than a warning.
"""

from collections.abc import Iterable, Iterator, Mapping

from envoy_config.plan.gateway._account_workloads import known_labels
from envoy_config.reachability._label_index import LabelIndex
from istio_config import ConfigObject
from istio_config.kinds.authorization_policy import AuthorizationPolicySpec
from istio_config.kinds.destination_rule import DestinationRuleSpec
from istio_config.kinds.envoy_filter import EnvoyFilterSpec
from istio_config.kinds.peer_authentication import PeerAuthenticationSpec
from istio_config.kinds.request_authentication import RequestAuthenticationSpec
from istio_config.kinds.sidecar import SidecarSpec
from istio_config.kinds.telemetry import TelemetrySpec
from mesh_configfile import FieldPath, Problem
from mesh_model import MeshModel


def selections_of_nothing(objects: Iterable[ConfigObject], model: MeshModel) -> Iterator[Problem]:
    """Yield a warning for each object whose labels no known workload of its namespace has."""
    root = model.mesh_config.root_namespace
    objects = tuple(objects)
    undecided = {each.namespace for each in objects if _has_unread_labels(each)}
    selections = [
        (item, *found)
        for item in objects
        if item.namespace != root and item.namespace not in undecided
        if (found := _selection(item)) is not None
    ]
    known = known_labels(model, {item.namespace for item, *_ in selections})
    indices = {namespace: LabelIndex(labels) for namespace, labels in known.items()}
    for item, path, labels in selections:
        workloads = indices[item.namespace]
        if workloads and not workloads.has_any(labels):
            wanted = ", ".join(f"{key}={value}" for key, value in sorted(labels.items()))
            yield item.problem(
                path,
                f"no workload that is known in namespace {item.namespace} has the labels {wanted}: "
                "it holds for none of them",
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
