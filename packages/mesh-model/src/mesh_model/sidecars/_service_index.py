"""The services of a mesh by namespace and host, for Sidecars that bring in few of many.

It knows services by their keys, so that it serves every model with the same ones.
"""

from collections.abc import Iterable, Mapping, Sequence

from istio_config.kinds.sidecar import ANY
from mesh_model._services import Service
from mesh_model.hosts._host_ranges import HostRanges

ServiceKey = tuple[str, str]
"""Namespace and host."""


class ServiceIndex:
    """Finds services by namespace and host, either of which may be a wildcard."""

    def __init__(self, keys: Sequence[ServiceKey]) -> None:
        """keys: those of the oldest services first."""
        self._keys = tuple(keys)
        self.order: Mapping[ServiceKey, int] = {key: index for index, key in enumerate(keys)}
        """The position of each service: the oldest first."""
        self._of_namespace: dict[str, HostRanges[ServiceKey]] = {}
        by_namespace: dict[str, list[ServiceKey]] = {}
        for key in keys:
            by_namespace.setdefault(key[0], []).append(key)
        self._by_namespace = by_namespace
        self._hosts = HostRanges((host, (namespace, host)) for namespace, host in keys)

    @classmethod
    def build(cls, services: Iterable[Service], before: "ServiceIndex | None") -> "ServiceIndex":
        """Return the index of these services: the one before, if it is right for them."""
        keys = tuple((each.namespace, each.host) for each in services)
        return before if before is not None and before._keys == keys else cls(keys)

    def find(self, namespace: str, pattern: str) -> Iterable[ServiceKey]:
        """Return the keys of a namespace's services, or of all (`*`), whose host matches."""
        if namespace == ANY:
            return self._hosts.within(pattern)
        if namespace not in self._of_namespace:
            self._of_namespace[namespace] = HostRanges(
                (key[1], key) for key in self._by_namespace.get(namespace, ())
            )
        return self._of_namespace[namespace].within(pattern)
