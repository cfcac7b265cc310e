"""Which Sidecar object a proxy has: the first of those that there are for it.

In the proxy's namespace those that select workloads by labels come first, then those for all; then
those of the root namespace for all. Among equals the oldest counts.
"""

from collections.abc import Iterable, Mapping, Sequence

from mesh_discovery.config._objects import ConfigObject
from mesh_discovery.config.kinds.sidecar._spec import SidecarSpec
from mesh_discovery.model._rule_objects import same_objects
from mesh_discovery.model._services import Labels

SidecarKey = tuple[str, str]
"""Namespace and name."""


class Sidecars:
    """All Sidecars of a mesh."""

    def __init__(self, objects: Sequence[ConfigObject], *, root_namespace: str) -> None:
        """objects: the oldest first."""
        self._objects = tuple(objects)
        self._root = root_namespace
        self._specs: dict[SidecarKey, SidecarSpec] = {}
        self._by_labels: dict[str, list[tuple[SidecarKey, Mapping[str, str]]]] = {}
        self._for_all: dict[str, SidecarKey] = {}
        for item in self._objects:
            spec = item.spec
            if not isinstance(spec, SidecarSpec):
                continue
            key = item.namespace, item.name
            self._specs[key] = spec
            if spec.workload_selector is None:
                self._for_all.setdefault(item.namespace, key)
            else:
                selector = spec.workload_selector.labels
                self._by_labels.setdefault(item.namespace, []).append((key, selector))

    @classmethod
    def of(
        cls,
        objects: Iterable[ConfigObject],
        *,
        root_namespace: str,
        before: "Sidecars | None" = None,
    ) -> "Sidecars":
        """Return those of these objects: the ones before, if nothing of them changed."""
        objects = tuple(objects)
        if (
            before is not None
            and before._root == root_namespace
            and same_objects(before._objects, objects)
        ):
            return before
        return cls(objects, root_namespace=root_namespace)

    def choose(self, namespace: str, labels: Labels) -> SidecarKey | None:
        """Return the key of the object that the proxies of a namespace with these labels have."""
        if not self._specs:
            return None
        known = dict(labels)
        for key, selector in self._by_labels.get(namespace, ()):
            if selector.items() <= known.items():
                return key
        return self._for_all.get(namespace) or self._for_all.get(self._root)

    def spec(self, key: SidecarKey) -> SidecarSpec | None:
        """Return the fields of an object; None if it is not there."""
        return self._specs.get(key)


NO_SIDECARS = Sidecars((), root_namespace="")
"""Those of a mesh without any."""
