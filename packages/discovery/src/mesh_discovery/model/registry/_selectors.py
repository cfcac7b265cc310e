"""The ServiceEntries and Kubernetes services by the labels of workloads that they select."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from mesh_discovery._edits import edits
from mesh_discovery.config._objects import ConfigObject, ObjectKey
from mesh_discovery.config.kinds._service_entry import ServiceEntrySpec
from mesh_discovery.config.kinds.kubernetes._service import KubernetesServiceSpec

_Labels = Mapping[str, str]
_OfNamespace = Mapping[tuple[str, str], Sequence[tuple[ObjectKey, _Labels]]]
"""The selectors by one of their labels, whichever: a workload that is selected has it."""


@dataclass(frozen=True)
class Selectors:
    """The selectors of all sources of services."""

    sources: tuple[ConfigObject, ...] = ()
    by_namespace: Mapping[str, _OfNamespace] = field(default_factory=dict, repr=False)

    @classmethod
    def of(cls, sources: tuple[ConfigObject, ...], *, before: "Selectors") -> "Selectors":
        """Sort the selectors of sources; those of namespaces without a change are taken over."""
        changed = edits(before.sources, sources)
        if not changed:
            return before
        touched = {each.namespace for each in (*changed.gone, *changed.come)}
        found = {name: known for name, known in before.by_namespace.items() if name not in touched}
        found |= _sorted(each for each in sources if each.namespace in touched)
        return cls(sources, found)

    def selecting(self, namespace: str, labels: _Labels) -> Iterator[ObjectKey]:
        """Yield the sources that select a workload with these labels; costs what they have."""
        known = self.by_namespace.get(namespace, {})
        for label in labels.items():
            for key, selector in known.get(label, ()):
                if selector.items() <= labels.items():
                    yield key


def _sorted(sources: Iterable[ConfigObject]) -> dict[str, _OfNamespace]:
    found: dict[str, dict[tuple[str, str], list[tuple[ObjectKey, _Labels]]]] = {}
    for each in sources:
        if selector := _selector(each):
            label = min(selector.items())
            known = found.setdefault(each.namespace, {})
            known.setdefault(label, []).append((each.key, selector))
    return dict(found)


def _selector(item: ConfigObject) -> _Labels:
    match item.spec:
        case ServiceEntrySpec(workload_selector=selector):
            return selector.labels if selector is not None else {}
        case KubernetesServiceSpec(selector=labels):
            return labels or {}
        case _:
            return {}
