"""Indices over all services of a mesh, and the services that differ between two meshes.

An index is built when it is first read. After an edit it is derived from the previous one and the
edited services, and costs these.
"""

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from mesh_model._addresses_served import ServedAt, changed_addresses, services_by_address
from mesh_model._auto_addresses import Key
from mesh_model._places import services_use_location, uses_nodes
from mesh_model._services import Service


class ChangedServices(NamedTuple):
    """The services that differ between two models, each before and after; None: absent."""

    pairs: Mapping[Key, tuple[Service | None, Service | None]]
    same_order: bool
    """Whether the keys of all services are the same, and in the same order."""


class ServiceFacts:
    """The indices of one mesh. A cache: two threads that read it at once find equal values."""

    def __init__(self, by_key: Mapping[Key, Service]) -> None:
        """by_key: the services by namespace and host, the oldest first."""
        self._by_key = by_key
        self._by_address: ServedAt | None = None
        self._use_location: bool | None = None
        self._use_nodes: bool | None = None

    @property
    def by_address(self) -> ServedAt:
        """The services and their endpoints by namespace and address of the endpoint."""
        if self._by_address is None:
            self._by_address = services_by_address(self._by_key.values())
        return self._by_address

    @property
    def use_location(self) -> bool:
        """Whether some service's own fields make its endpoints depend on a proxy's location."""
        if self._use_location is None:
            self._use_location = services_use_location(self._by_key.values())
        return self._use_location

    @property
    def use_nodes(self) -> bool:
        """Whether endpoints depend on the Kubernetes node that a proxy runs on."""
        if self._use_nodes is None:
            self._use_nodes = uses_nodes(self._by_key.values())
        return self._use_nodes

    def take_over(self, before: "ServiceFacts", changed: ChangedServices) -> None:
        """Derive the indices that the previous mesh had; changed: how its services differ."""
        gone = [old for old, _ in changed.pairs.values() if old is not None]
        come = [new for _, new in changed.pairs.values() if new is not None]
        # The services of an address stand in the mesh's order: another order of services that did
        # not change themselves is a change of the index, too.
        keeps_order = changed.same_order or _common_keys_in_order(before._by_key, self._by_key)
        if before._by_address is not None and keeps_order:
            order = list(self._by_key)
            self._by_address = changed_addresses(before._by_address, changed.pairs, order)
        if before._use_location is not None and not services_use_location(gone):
            self._use_location = before._use_location or services_use_location(come)
        if before._use_nodes is not None and not uses_nodes(gone):
            self._use_nodes = before._use_nodes or uses_nodes(come)


def compared(
    old: Mapping[Key, Service], new: Mapping[Key, Service], edited: Iterable[Service]
) -> ChangedServices:
    """Return which services differ; edited: all those that one of the meshes may not have."""
    keys = dict.fromkeys((each.namespace, each.host) for each in edited)
    pairs = {key: (old.get(key), new.get(key)) for key in keys}
    return ChangedServices(
        {key: pair for key, pair in pairs.items() if pair[0] != pair[1]},
        same_order=old is new or list(old) == list(new),
    )


def _common_keys_in_order(old: Mapping[Key, Service], new: Mapping[Key, Service]) -> bool:
    kept = (each for each in new if each in old)
    return all(one == other for one, other in zip((k for k in old if k in new), kept, strict=True))
