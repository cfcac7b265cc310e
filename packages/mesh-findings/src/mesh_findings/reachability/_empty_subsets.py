"""Finds destinations whose subset has none of the endpoints of its host."""

from collections.abc import Collection, Iterable, Iterator
from functools import cached_property

from istio_config import ConfigObject
from istio_config.kinds.virtual_service import VIRTUAL_SERVICE
from mesh_configfile import Problem
from mesh_findings.reachability._by_object import Found
from mesh_findings.reachability._labels import NO_PODS, LabelIndex, Pods
from mesh_findings.unused._virtual_services import destinations_of
from mesh_model import HostIndex, Labels, MeshModel, Rule, Service, full_host


def empty_subsets(model: MeshModel, pods: Pods = NO_PODS) -> Iterator[Problem]:
    """Yield the destinations of VirtualServices whose subset has none of the host's endpoints.

    Of a service without a known endpoint nothing is said. pods: labels of further workloads.
    """
    found = empty_subsets_of(model.rules.of_kind(VIRTUAL_SERVICE), model, pods)
    return (problem for _, problem in found)


def empty_subsets_of(
    items: Iterable[ConfigObject], model: MeshModel, pods: Pods = NO_PODS
) -> Found:
    """Yield those of some VirtualServices, each with its object; it costs what these name."""
    subsets = _Subsets(model, pods)
    for item in items:
        for path, destination in destinations_of(item.spec):
            if not destination.subset:
                continue
            host = full_host(destination.host, item.namespace, model.domain)
            if (empty := subsets.emptiness(host, destination.subset)) is not None:
                yield item, item.problem((*path, "subset"), empty, "IST0173")


class _Subsets:
    """The subsets that rules have, each of which is looked at once."""

    def __init__(self, model: MeshModel, pods: Pods) -> None:
        self._model = model
        self._pods = pods
        self._reasons: dict[tuple[str, str], str | None] = {}

    def emptiness(self, host: str, subset: str) -> str | None:
        """Return why requests to a subset have no endpoint; None if they have, or who knows."""
        key = host, subset
        if key not in self._reasons:
            self._reasons[key] = _emptiness(subset, self._labels(host), self._rules, host)
        return self._reasons[key]

    def _labels(self, host: str) -> Collection[Labels]:
        found: set[Labels] = set()
        for key in self._model.indices.services.find("*", host):
            service = self._model.by_key[key]
            found.update(each.labels for each in service.endpoints)
            found.update(selected_pods(service, self._pods))
        return found

    @cached_property
    def _rules(self) -> HostIndex[Rule]:
        rules = self._model.destination_rules.rules
        return HostIndex((each.host, each) for each in rules if each.subsets)


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
