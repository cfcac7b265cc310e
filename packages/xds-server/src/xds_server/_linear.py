"""Ready-made configuration: one type, the same for everybody, changed one resource at a time."""

from __future__ import annotations

from collections.abc import Iterable

from ._generator import Client, Generated, Watch
from ._push import ConfigKey, PushRequest
from ._resource import Resource

RESOURCE = "Resource"
"""The kind of the config keys of single resources; namespace is the type's URL."""


class LinearStore:
    """The resources of one type.

    What a change costs a client is in proportion to the change, not to the store: only the
    resources named in the push are looked at. Watches of a prefix (`x/*`) are served.
    """

    def __init__(self, type_url: str, resources: Iterable[Resource] = ()) -> None:
        self._type_url = type_url
        self._resources = {resource.name: resource for resource in resources}
        self._everything: Generated | None = None

    def __len__(self) -> int:
        return len(self._resources)

    def get(self, name: str) -> Resource | None:
        return self._resources.get(name)

    def update(self, *resources: Resource) -> PushRequest:
        """Add or replace these; hand the request returned to the server."""
        return self.apply(resources)

    def delete(self, *names: str) -> PushRequest:
        """Remove these; hand the request returned to the server."""
        return self.apply((), deleted=names)

    def replace(self, resources: Iterable[Resource]) -> PushRequest:
        """Have these and no others; hand the request returned to the server."""
        new = {resource.name: resource for resource in resources}
        return self.apply(new.values(), deleted=self._resources.keys() - new.keys())

    def apply(self, resources: Iterable[Resource], *, deleted: Iterable[str] = ()) -> PushRequest:
        """Additions, changes and removals as one change; what stays the same is not in it."""
        changed = [r for r in resources if self._is_new(r)]
        gone = [name for name in deleted if self._resources.pop(name, None) is not None]
        self._resources.update((resource.name, resource) for resource in changed)
        self._everything = None
        names = [*(resource.name for resource in changed), *gone]
        return PushRequest(
            full=False,
            configs_updated=frozenset(ConfigKey(RESOURCE, n, self._type_url) for n in names),
            reasons=("resource",),
        )

    def generate(
        self, _client: Client[object], watch: Watch, push: PushRequest | None, /
    ) -> Generated | None:
        if push is not None and push.configs_updated:
            return self._difference(watch, push)
        if watch.wildcard:
            if self._everything is None:
                self._everything = Generated(resources=tuple(self._resources.values()))
            return self._everything
        return Generated(
            resources=[r for name, r in self._resources.items() if watch.covers(name)]
            if any(name.endswith("/*") for name in watch.names)
            else [self._resources[name] for name in watch.names if name in self._resources],
            removed=watch.names.difference(self._resources) if push else frozenset(),
        )

    def _difference(self, watch: Watch, push: PushRequest) -> Generated | None:
        names = [
            key.name
            for key in push.configs_updated
            if key.kind == RESOURCE and key.namespace == self._type_url and watch.covers(key.name)
        ]
        if not names:
            return None
        return Generated(
            resources=[self._resources[name] for name in names if name in self._resources],
            removed=frozenset(name for name in names if name not in self._resources),
            partial=True,
        )

    def _is_new(self, resource: Resource) -> bool:
        old = self._resources.get(resource.name)
        return old is None or old.version != resource.version
