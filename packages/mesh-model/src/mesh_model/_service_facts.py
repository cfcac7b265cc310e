"""Indices over all services of a mesh, and the services that differ between two meshes.

An index is built when it is first read. After an edit it is derived from the previous one and the
edited services, and costs these. If nothing in a mesh depends on the location of a proxy (its
locality, network or node), all proxies share their endpoints and clusters; that is asked of the
whole mesh here, and of each service in `envoy_config/plan/_locality`.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple, TypeAlias

from istio_config.kinds.mesh_config import MeshConfigSpec
from mesh_model._destination_rules import DestinationRules
from mesh_model._services import Endpoint, Service, ServiceKey


def rules_use_location(rules: DestinationRules, mesh: MeshConfigSpec) -> bool:
    """Return whether rules make the endpoints of some service depend on a proxy's locality."""
    if mesh.locality_lb_setting.distribute:
        return True
    # Envoy fails over between localities only where outlier detection tells it who is unhealthy;
    # so does Istio (pilot/pkg/networking/core/cluster_traffic_policy.go).
    default = mesh.default_traffic_policy
    if default is not None and default.outlier_detection is not None:
        return True
    return rules.depend_on_location


def services_use_location(services: Iterable[Service]) -> bool:
    """Return whether some service's own fields make its endpoints depend on a proxy's location."""
    return any(each.traffic_distribution or each.is_node_local for each in services)


def uses_nodes(services: Iterable[Service]) -> bool:
    """Return whether the endpoints of some service depend on the node that a proxy runs on."""
    return any(
        each.is_node_local or each.traffic_distribution == "PreferSameNode" for each in services
    )


def locality_labels(mesh: MeshConfigSpec) -> frozenset[str]:
    """Return the keys of the labels by which endpoints take over from each other in all rules."""
    labels = mesh.locality_lb_setting.failover_priority
    return frozenset(each.partition("=")[0] for each in labels)


AddressKey: TypeAlias = tuple[str, str]
"""The namespace and the address of an endpoint."""
ServedAt: TypeAlias = Mapping[AddressKey, tuple[tuple[Service, Endpoint], ...]]
"""The services and their endpoints, in the order of the services."""


def services_by_address(services: Iterable[Service]) -> ServedAt:
    """Return the services at each address."""
    found: dict[AddressKey, list[tuple[Service, Endpoint]]] = {}
    for service in services:
        for endpoint in service.endpoints:
            found.setdefault((endpoint.namespace, endpoint.address), []).append((service, endpoint))
    return {key: tuple(served) for key, served in found.items()}


def changed_addresses(
    before: ServedAt,
    changed: Mapping[tuple[str, str], tuple[Service | None, Service | None]],
    order: Sequence[tuple[str, str]],
) -> ServedAt:
    """Return the services at each address after an edit, at the cost of the edited services.

    changed: services before and after, by namespace and host. order: the keys of all services now.
    """
    keys = {
        (endpoint.namespace, endpoint.address)
        for pair in changed.values()
        for service in pair
        if service is not None
        for endpoint in service.endpoints
    }
    found = dict(before)
    positions: Mapping[tuple[str, str], int] | None = None
    for key in keys:
        kept = [
            each for each in before.get(key, ()) if (each[0].namespace, each[0].host) not in changed
        ]
        come = [
            (service, endpoint)
            for _, service in changed.values()
            if service is not None
            for endpoint in service.endpoints
            if (endpoint.namespace, endpoint.address) == key
        ]
        served = kept + come
        if len({(each.namespace, each.host) for each, _ in served}) > 1:
            if positions is None:
                positions = {key: index for index, key in enumerate(order)}
            known = positions
            served.sort(key=lambda each: known[each[0].namespace, each[0].host])
        if served:
            found[key] = tuple(served)
        else:
            found.pop(key, None)
    return found


class ChangedServices(NamedTuple):
    """The services that differ between two models, each before and after; None: absent."""

    pairs: Mapping[ServiceKey, tuple[Service | None, Service | None]]
    same_order: bool
    """Whether the keys of all services are the same, and in the same order."""


class ServiceFacts:
    """The indices of one mesh. A cache: two threads that read it at once find equal values."""

    def __init__(self, by_key: Mapping[ServiceKey, Service]) -> None:
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
    old: Mapping[ServiceKey, Service], new: Mapping[ServiceKey, Service], edited: Iterable[Service]
) -> ChangedServices:
    """Return which services differ; edited: all those that one of the meshes may not have."""
    keys = dict.fromkeys((each.namespace, each.host) for each in edited)
    pairs = {key: (old.get(key), new.get(key)) for key in keys}
    return ChangedServices(
        {key: pair for key, pair in pairs.items() if pair[0] != pair[1]},
        same_order=old is new or list(old) == list(new),
    )


def _common_keys_in_order(
    old: Mapping[ServiceKey, Service], new: Mapping[ServiceKey, Service]
) -> bool:
    kept = (each for each in new if each in old)
    return all(one == other for one, other in zip((k for k in old if k in new), kept, strict=True))
