"""The ServiceEntries and Kubernetes services by the labels of workloads that they select."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from istio_config import ConfigObject, ObjectKey
from istio_config.kinds.kubernetes import KubernetesServiceSpec
from istio_config.kinds.service_entry import ServiceEntrySpec
from mesh_model._derived import Derived, derive

_Labels = Mapping[str, str]
_OfNamespace = Mapping[tuple[str, str], Sequence[tuple[ObjectKey, _Labels]]]
"""The selectors by one of their labels: a workload that is selected has each of them."""


@dataclass(frozen=True)
class Selectors:
    """The selectors of all sources of services, by namespace."""

    derived: Derived[ConfigObject, str, _OfNamespace] = field(default_factory=Derived)

    @classmethod
    def build(cls, sources: Iterable[ConfigObject], *, before: "Selectors") -> "Selectors":
        """Index the selectors of sources; indices of unchanged namespaces are kept."""
        return cls(derive(sources, _namespace, _sorted, before=before.derived, same=_same_selector))

    def selecting(self, namespace: str, labels: _Labels) -> Iterator[ObjectKey]:
        """Yield the sources that select a workload with these labels; costs what they have."""
        known = self.derived.values.get(namespace, {})
        for label in labels.items():
            for key, selector in known.get(label, ()):
                if selector.items() <= labels.items():
                    yield key


def _namespace(source: ConfigObject) -> str | None:
    return source.namespace if _selector(source) else None


def _same_selector(one: ConfigObject, other: ConfigObject) -> bool:
    return one.key == other.key and _selector(one) == _selector(other)


def _sorted(_namespace: str, sources: Iterable[ConfigObject]) -> _OfNamespace:
    found: dict[tuple[str, str], list[tuple[ObjectKey, _Labels]]] = {}
    for each in sources:
        selector = _selector(each)
        found.setdefault(min(selector.items()), []).append((each.key, selector))
    return found


def _selector(item: ConfigObject) -> _Labels:
    match item.spec:
        case ServiceEntrySpec(workload_selector=selector):
            return selector.labels if selector is not None else {}
        case KubernetesServiceSpec(selector=labels):
            return labels or {}
        case _:
            return {}
