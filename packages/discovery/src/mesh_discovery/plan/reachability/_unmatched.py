"""Finds what is for labels that nothing has, and looks again only where labels or rules changed."""

from collections.abc import Collection, Iterator
from dataclasses import dataclass

from mesh_configfile import Problem
from mesh_discovery.config._objects import ConfigObject
from mesh_discovery.config._snapshot import Snapshot
from mesh_discovery.config.kinds._peer_authentication import PEER_AUTHENTICATION
from mesh_discovery.config.kinds._registry import AnyKind
from mesh_discovery.config.kinds.authorization_policy._kind import AUTHORIZATION_POLICY
from mesh_discovery.config.kinds.destination_rule._kind import DESTINATION_RULE
from mesh_discovery.config.kinds.envoy_filter._kind import ENVOY_FILTER
from mesh_discovery.config.kinds.request_authentication._kind import REQUEST_AUTHENTICATION
from mesh_discovery.config.kinds.sidecar._kind import SIDECAR
from mesh_discovery.config.kinds.telemetry._kind import TELEMETRY
from mesh_discovery.config.kinds.virtual_service._kind import VIRTUAL_SERVICE
from mesh_discovery.model._destination_rules import Rule
from mesh_discovery.model._model import MeshModel, changed_services
from mesh_discovery.model._services import Labels, Service
from mesh_discovery.model.hosts._host_index import HostIndex
from mesh_discovery.model.hosts._short_names import full_host
from mesh_discovery.plan.gateway._account_workloads import same_objects
from mesh_discovery.plan.reachability._label_index import LabelIndex
from mesh_discovery.plan.reachability._selections import selections_of_nothing
from mesh_discovery.plan.virtual_hosts._unused import destinations_of

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
