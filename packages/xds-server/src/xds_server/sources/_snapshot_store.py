"""Snapshots: all resources of a node or a group of nodes, at one version."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from typing import Generic, TypeVar

import msgspec

from xds_server.protocol._resource import Resource
from xds_server.protocol._type_urls import (
    CLUSTER,
    ENDPOINT,
    LISTENER,
    ROUTE,
    SCOPED_ROUTE,
    SHORT_NAMES,
)
from xds_server.protocol._watch import Watch
from xds_server.pushing._push_request import ConfigKey, PushRequest
from xds_server.sources._generated import Generated
from xds_server.sources._generator import Client

C = TypeVar("C")

SNAPSHOT = "Snapshot"
"""The kind of the config keys of snapshots; the name is the group's."""


class Snapshot(msgspec.Struct, frozen=True, kw_only=True):
    """All resources of one group of nodes, by type. Immutable; `of` makes one.

    Each `Generated` in it is `complete`.
    """

    resources: Mapping[str, Generated]

    @classmethod
    def build(cls, resources: Iterable[Resource], *, version: str | None = None) -> Snapshot:
        """Return a snapshot of these resources; `version` None takes the server's at the time."""
        by_type: dict[str, list[Resource]] = {}
        for resource in resources:
            by_type.setdefault(resource.type_url, []).append(resource)
        return cls(
            resources={
                type_url: Generated(resources=tuple(some), version=version, complete=True)
                for type_url, some in by_type.items()
            }
        )

    def names(self, type_url: str) -> frozenset[str]:
        generated = self.resources.get(type_url)
        return frozenset(generated.by_name()) if generated is not None else frozenset()

    def problems(self) -> tuple[str, ...]:
        """Return the references that lead nowhere and the resources without any, a sentence each.

        Every cluster that gets its endpoints over xDS needs them here, and every listener and every
        scoped route its routes; and no client asks for resources that no other refers to.
        """
        from xds_server.sources import (
            _snapshot_references as references,  # loads much of Envoy's API
        )

        clusters = self._all(CLUSTER)
        endpoints = self.names(ENDPOINT)
        wanted_endpoints = references.wanted_endpoints(clusters)
        routes = self.names(ROUTE)
        of_listeners = references.wanted_routes(self._all(LISTENER))
        of_scopes = references.routes_of_scopes(self._all(SCOPED_ROUTE))
        scopes_wanted = references.scopes_are_wanted(self._all(LISTENER))
        return (
            *_sentences(
                "endpoints {!r} are missing, a cluster needs them", wanted_endpoints - endpoints
            ),
            *_sentences("endpoints {!r} belong to no cluster", endpoints - wanted_endpoints),
            *_sentences("routes {!r} are missing, a listener needs them", of_listeners - routes),
            *_sentences("routes {!r} are missing, a scoped route needs them", of_scopes - routes),
            *_sentences("routes {!r} belong to no listener", routes - of_listeners - of_scopes),
            *_sentences(
                "scoped routes {!r} belong to no listener",
                frozenset() if scopes_wanted else self.names(SCOPED_ROUTE),
            ),
        )

    def _all(self, type_url: str) -> Iterable[Resource]:
        generated = self.resources.get(type_url)
        return generated.resources if generated is not None else ()


class SnapshotStore(Generic[C]):
    """Snapshots by group, and the generator that serves them.

    `group_of` says which group a client belongs to; its node's id by default. A
    client of a group without a snapshot waits until there is one. A request that names part of
    a snapshot gets that part.
    """

    def __init__(self, *, group_of: Callable[[Client[C]], str] | None = None) -> None:
        self._group_of = group_of if group_of is not None else _node_id
        self._snapshots: dict[str, Snapshot] = {}

    def set(self, group: str, snapshot: Snapshot) -> PushRequest:
        """Give `group` this snapshot; pass the request that is returned to the server."""
        self._snapshots[group] = snapshot
        return self._push_request(group)

    def clear(self, group: str) -> PushRequest:
        """Take the snapshot of `group` away; its clients keep what they have."""
        self._snapshots.pop(group, None)
        return self._push_request(group)

    def get(self, group: str) -> Snapshot | None:
        return self._snapshots.get(group)

    def generators(self, *type_urls: str) -> dict[str, SnapshotStore[C]]:
        """Return this store as the generator of these types; of all known types without any."""
        return dict.fromkeys(type_urls or SHORT_NAMES, self)

    def needs_push(self, client: Client[C], request: PushRequest) -> bool:
        """Return whether `client` belongs to a group that changed."""
        if not request.configs_updated:
            return True
        return ConfigKey(SNAPSHOT, self._group_of(client), "") in request.configs_updated

    def generate(
        self, client: Client[C], watch: Watch, _push: PushRequest | None, /
    ) -> Generated | None:
        snapshot = self._snapshots.get(self._group_of(client))
        if snapshot is None:
            return None
        # All of it, whatever the client watches: streams select, and equal ones share that.
        generated = snapshot.resources.get(watch.type_url, _NOTHING)
        return generated if generated.complete else replace(generated, complete=True)

    def _push_request(self, group: str) -> PushRequest:
        return PushRequest(
            configs_updated=frozenset({ConfigKey(SNAPSHOT, group, "")}), triggers=("snapshot",)
        )


_NOTHING = Generated(resources=(), complete=True)


def _node_id(client: Client[object]) -> str:
    return client.node.id


def _sentences(sentence: str, names: Iterable[str]) -> tuple[str, ...]:
    return tuple(sentence.format(name) for name in sorted(names))
