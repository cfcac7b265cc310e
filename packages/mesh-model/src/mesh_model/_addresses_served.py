"""The services served at each address, by which a proxy finds those that it is an endpoint of.

Istio's GetProxyServiceTargets.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import TypeAlias

from mesh_model._services import Endpoint, Service

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
