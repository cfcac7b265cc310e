"""The workloads of a mesh, WorkloadEntries and pods, found by namespace and labels."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property

from istio_config import ConfigObject
from istio_config.kinds.workload_entry import WorkloadEntrySpec
from mesh_model._derived import Derived, derive
from mesh_model._object_changes import Same, same_content

Labels = Mapping[str, str]


def labels_of(workload: ConfigObject) -> dict[str, str]:
    """Return the labels of a pod or a WorkloadEntry; those of its metadata win."""
    own = dict(workload.labels)
    if isinstance(workload.spec, WorkloadEntrySpec):
        return {**workload.spec.labels, **own}
    return own


@dataclass(frozen=True)
class _OfNamespace:
    """The workloads of one namespace, in order."""

    workloads: tuple[ConfigObject, ...]

    @cached_property
    def _by_label(self) -> Mapping[tuple[str, str], Sequence[int]]:
        found: dict[tuple[str, str], list[int]] = {}
        for index, labels in enumerate(self._labels):
            for label in labels.items():
                found.setdefault(label, []).append(index)
        return found

    @cached_property
    def _labels(self) -> Sequence[dict[str, str]]:
        return [labels_of(each) for each in self.workloads]

    def selected(self, wanted: Labels) -> tuple[ConfigObject, ...]:
        """Return those with all of some labels; costs what the rarest of the labels has."""
        if not wanted:
            return ()
        candidates = min((self._by_label.get(each, ()) for each in wanted.items()), key=len)
        return tuple(
            self.workloads[index]
            for index in candidates
            if wanted.items() <= self._labels[index].items()
        )


_NONE = _OfNamespace(())


@dataclass(frozen=True)
class Workloads:
    """Workloads of one kind, by namespace."""

    derived: Derived[ConfigObject, str, _OfNamespace] = field(default_factory=Derived)

    @classmethod
    def build(
        cls,
        objects: Iterable[ConfigObject],
        *,
        before: "Workloads",
        same: Same = same_content,
    ) -> "Workloads":
        """Index workloads by namespace; indices of unchanged namespaces are kept.

        same: whether two versions of a workload count as equal.
        """
        derived = derive(
            objects,
            lambda each: each.namespace,
            lambda _, workloads: _OfNamespace(workloads),
            before=before.derived,
            same=same,
        )
        return cls(derived)

    @property
    def objects(self) -> tuple[ConfigObject, ...]:
        """All of them, as they were read last."""
        return self.derived.objects

    @property
    def by_namespace(self) -> Mapping[str, _OfNamespace]:
        """By namespace; the same mapping as before if no workload changed."""
        return self.derived.values

    def of_namespace(self, namespace: str) -> tuple[ConfigObject, ...]:
        """Return the workloads of a namespace."""
        return self.by_namespace.get(namespace, _NONE).workloads

    def selected(self, namespace: str, labels: Labels) -> tuple[ConfigObject, ...]:
        """Return the workloads of a namespace that have all these labels, by name."""
        found = self.by_namespace.get(namespace, _NONE).selected(labels)
        return tuple(sorted(found, key=lambda each: each.name))
