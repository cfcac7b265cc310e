"""Finds what is for labels that nothing has, and looks again only where labels or rules changed."""

from collections.abc import Collection, Iterator
from dataclasses import dataclass

from envoy_config.plan.gateway._account_workloads import same_objects
from envoy_config.plan.virtual_hosts._unused import destinations_of
from envoy_config.reachability._label_index import LabelIndex
from envoy_config.reachability._selections import selections_of_nothing
from istio_config import ConfigObject, Snapshot
from istio_config.kinds.authorization_policy import AUTHORIZATION_POLICY
from istio_config.kinds.destination_rule import DESTINATION_RULE
from istio_config.kinds.envoy_filter import ENVOY_FILTER
from istio_config.kinds.peer_authentication import PEER_AUTHENTICATION
from istio_config.kinds.registry import AnyKind
from istio_config.kinds.request_authentication import REQUEST_AUTHENTICATION
from istio_config.kinds.sidecar import SIDECAR
from istio_config.kinds.telemetry import TELEMETRY
from istio_config.kinds.virtual_service import VIRTUAL_SERVICE
from mesh_configfile import Problem
from mesh_model import HostIndex, Labels, MeshModel, Rule, Service, changed_services, full_host

_KINDS: tuple[AnyKind, ...] = (
    PEER_AUTHENTICATION,
    AUTHORIZATION_POLICY,
    REQUEST_AUTHENTICATION,
    TELEMETRY,
    DESTINATION_RULE,
    SIDECAR,
    ENVOY_FILTER,
    VIRTUAL_SERVICE,
)


@dataclass(frozen=True, kw_only=True)
class Unmatched:
    """The warnings of a mesh about labels that nothing has, in order."""

    model: MeshModel
    objects: tuple[ConfigObject, ...]
    warnings: tuple[Problem, ...]


def unmatched(snapshot: Snapshot, model: MeshModel, before: Unmatched | None = None) -> Unmatched:
    """Find what is for labels that nothing has; before: what was found in an earlier model."""
    objects = tuple(each for kind in _KINDS for each in snapshot.of_kind(kind))
    if before is not None and before.objects == objects and _same_labels(before.model, model):
        return Unmatched(model=model, objects=objects, warnings=before.warnings)
    found = {*selections_of_nothing(objects, model), *empty_subsets(model)}
    return Unmatched(model=model, objects=objects, warnings=tuple(sorted(found)))


def empty_subsets(model: MeshModel) -> Iterator[Problem]:
    """Yield the destinations of VirtualServices whose subset has none of the host's endpoints.

    A service of which no endpoint is known is not judged.
    """
    labels: dict[str, set[Labels]] = {}
    for service in model.services:
        labels.setdefault(service.host, set()).update(each.labels for each in service.endpoints)
    # Many rules name many hosts: each lookup is one of an index, and each subset is judged once.
    rules = HostIndex((each.host, each) for each in model.destination_rules.rules if each.subsets)
    judged: dict[tuple[str, str], str | None] = {}
    for item in model.rules.of_kind(VIRTUAL_SERVICE):
        for path, destination in destinations_of(item.spec):
            if not destination.subset:
                continue
            host = full_host(destination.host, item.namespace, model.domain)
            key = host, destination.subset
            if key not in judged:
                judged[key] = _emptiness(destination.subset, labels.get(host, ()), rules, host)
            if (empty := judged[key]) is not None:
                yield item.problem((*path, "subset"), empty)


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
    told = " or ".join(
        ", ".join(f"{key}={value}" for key, value in sorted(each.items())) for each in wanted
    )
    return (
        f'no endpoint of {host} has the labels of the subset "{name}", '
        f"{told}: what is sent there is answered with 503, or closed"
    )


def _same_labels(old: MeshModel, new: MeshModel) -> bool:
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
