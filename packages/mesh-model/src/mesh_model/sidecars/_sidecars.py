"""Which Sidecar object a proxy has: the first of those that there are for it.

In the proxy's namespace those that select workloads by labels come first, then those for all; then
those of the root namespace for all. Among equals the oldest counts.
"""

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from istio_config import ConfigObject
from istio_config.kinds.sidecar import SidecarSpec
from mesh_model._derived import Derived, derive, view
from mesh_model._object_changes import same_spec
from mesh_model._services import Labels

SidecarKey = tuple[str, str]
"""Namespace and name."""


class _OfNamespace(NamedTuple):
    """The Sidecars of a namespace."""

    specs: Mapping[str, SidecarSpec]
    """By name, the oldest first."""
    for_all: SidecarKey | None
    """The oldest of those for all workloads."""


class Sidecars:
    """All Sidecars of a mesh."""

    def __init__(self, derived: Derived[ConfigObject, str, _OfNamespace]) -> None:
        self.derived = derived

    @classmethod
    def build(
        cls,
        objects: Iterable[ConfigObject],
        *,
        root_namespace: str,
        before: "Sidecars | None" = None,
    ) -> "Sidecars":
        """Return those of these objects: the ones before, if nothing of them changed."""
        derived = derive(
            objects,
            _namespace,
            _of_namespace,
            settings=root_namespace,
            before=before.derived if before is not None else None,
            same=same_spec,
        )
        return view(cls, derived, before)

    def choose(self, namespace: str, labels: Labels) -> SidecarKey | None:
        """Return the key of the object that the proxies of a namespace with these labels have."""
        own = self.derived.values.get(namespace)
        if own is not None:
            known = dict(labels)
            for name, spec in own.specs.items():
                selector = spec.workload_selector
                if selector is not None and selector.labels.items() <= known.items():
                    return namespace, name
            if own.for_all is not None:
                return own.for_all
        root = self.derived.values.get(str(self.derived.settings))
        return root.for_all if root is not None else None

    def spec(self, key: SidecarKey) -> SidecarSpec | None:
        """Return the fields of an object; None if it is not there."""
        of_namespace = self.derived.values.get(key[0])
        return of_namespace.specs.get(key[1]) if of_namespace is not None else None


def _namespace(item: ConfigObject) -> str | None:
    return item.namespace if isinstance(item.spec, SidecarSpec) else None


def _of_namespace(namespace: str, objects: Iterable[ConfigObject]) -> _OfNamespace:
    specs = {each.name: each.spec for each in objects if isinstance(each.spec, SidecarSpec)}
    for_all = (name for name, spec in specs.items() if spec.workload_selector is None)
    name = next(for_all, None)
    return _OfNamespace(specs, (namespace, name) if name is not None else None)
