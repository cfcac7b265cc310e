"""A store of one type that is the same for all clients, changed one resource at a time."""

from __future__ import annotations

from collections.abc import Iterable

from xds_server.protocol._resource import Resource
from xds_server.protocol._type_urls import REFER_TO_NOTHING
from xds_server.protocol._watch import Watch
from xds_server.pushing._push_request import NOTHING_CHANGED, ConfigKey, PushRequest
from xds_server.sources._generated import Generated
from xds_server.sources._generator import Client

RESOURCE = "Resource"
"""The kind of the config keys of single resources; namespace is the type's URL."""


class LinearStore:
    """The resources of one type.

    What a change costs a client is in proportion to the change, not to the store: only the
    resources named in the push are looked at. Watches of a prefix (`x/*`) are served. Changes of
    endpoints, secrets and runtime layers are `incremental`; those of other types are not, as they
    may refer to what changed along with them.
    """

    def __init__(
        self, type_url: str, resources: Iterable[Resource] = (), *, version: str | None = None
    ) -> None:
        self._type_url = type_url
        self._resources = {resource.name: resource for resource in resources}
        self._version = version
        self._everything: Generated | None = None
        # The difference of a push, by the names of it that a client watches.
        self._differences: dict[frozenset[str], Generated] = {}

    def __len__(self) -> int:
        return len(self._resources)

    def get(self, name: str) -> Resource | None:
        return self._resources.get(name)

    def update(self, *resources: Resource, version: str | None = None) -> PushRequest:
        """Add or replace these; hand the request returned to the server."""
        return self.apply(resources, version=version)

    def delete(self, *names: str, version: str | None = None) -> PushRequest:
        """Remove these; hand the request returned to the server."""
        return self.apply((), deleted=names, version=version)

    def replace(self, resources: Iterable[Resource], *, version: str | None = None) -> PushRequest:
        """Have these and no others; hand the request returned to the server."""
        new = {resource.name: resource for resource in resources}
        return self.apply(
            new.values(), deleted=self._resources.keys() - new.keys(), version=version
        )

    def apply(
        self,
        resources: Iterable[Resource],
        *,
        deleted: Iterable[str] = (),
        version: str | None = None,
    ) -> PushRequest:
        """Make additions, changes and removals one change; equal resources are not part of it.

        `version` is that of responses from now on; None leaves it to the server, whose versions
        count its pushes. If everything stays the same, the request that is returned says so, and
        no client is pushed to.
        """
        changed = [r for r in resources if self._is_new(r)]
        gone = [name for name in deleted if self._resources.pop(name, None) is not None]
        self._resources.update((resource.name, resource) for resource in changed)
        self._version = version
        self._everything = None
        self._differences.clear()
        names = [*(resource.name for resource in changed), *gone]
        if not names:
            return NOTHING_CHANGED
        return PushRequest(
            incremental=self._type_url in REFER_TO_NOTHING,
            configs_updated=frozenset(ConfigKey(RESOURCE, n, self._type_url) for n in names),
            triggers=("resource",),
        )

    def generate(
        self, _client: Client[object], watch: Watch, push: PushRequest | None, /
    ) -> Generated | None:
        if push is not None and push.configs_updated:
            return self._difference(watch, push)
        if self._everything is None:
            self._everything = Generated(
                resources=tuple(self._resources.values()), version=self._version, complete=True
            )
        return self._everything

    def _difference(self, watch: Watch, push: PushRequest) -> Generated | None:
        names = frozenset(
            key.name
            for key in push.configs_updated
            if key.kind == RESOURCE and key.namespace == self._type_url and watch.covers(key.name)
        )
        if not names:
            return None
        difference = self._differences.get(names)
        if difference is None:
            difference = self._differences[names] = Generated(
                resources=[self._resources[name] for name in names if name in self._resources],
                removed=names.difference(self._resources),
                version=self._version,
                partial=True,
            )
        return difference

    def _is_new(self, resource: Resource) -> bool:
        old = self._resources.get(resource.name)
        return old is None or (old.version, old.ttl_s) != (resource.version, resource.ttl_s)
