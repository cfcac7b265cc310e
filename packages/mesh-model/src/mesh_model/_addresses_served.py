"""The services that are served at an address: what a proxy with this address is an endpoint of."""

from collections.abc import Iterable, Mapping, Sequence
from typing import TypeAlias

from mesh_model._services import Endpoint, Service

Place: TypeAlias = tuple[str, str]
"""The namespace and the address of an endpoint."""
ServedAt: TypeAlias = Mapping[Place, tuple[tuple[Service, Endpoint], ...]]
"""The services and their endpoints, in the order of the services."""


def services_by_address(services: Iterable[Service]) -> ServedAt:
    """Find the services at all addresses."""
    found: dict[Place, list[tuple[Service, Endpoint]]] = {}
    for service in services:
        for endpoint in service.endpoints:
            found.setdefault((endpoint.namespace, endpoint.address), []).append((service, endpoint))
    return {place: tuple(served) for place, served in found.items()}


def changed_addresses(
    before: ServedAt,
    changed: Mapping[tuple[str, str], tuple[Service | None, Service | None]],
    order: Sequence[tuple[str, str]],
) -> ServedAt:
    """Return the services at all addresses after some were changed; costs what they have.

    changed: services before and after, by namespace and host. order: the keys of all services now.
    """
    places = {
        (endpoint.namespace, endpoint.address)
        for pair in changed.values()
        for service in pair
        if service is not None
        for endpoint in service.endpoints
    }
    found = dict(before)
    positions: Mapping[tuple[str, str], int] | None = None
    for place in places:
        kept = [
            each
            for each in before.get(place, ())
            if (each[0].namespace, each[0].host) not in changed
        ]
        come = [
            (service, endpoint)
            for _, service in changed.values()
            if service is not None
            for endpoint in service.endpoints
            if (endpoint.namespace, endpoint.address) == place
        ]
        served = kept + come
        if len({(each.namespace, each.host) for each, _ in served}) > 1:
            if positions is None:
                positions = {key: index for index, key in enumerate(order)}
            known = positions
            served.sort(key=lambda each: known[each[0].namespace, each[0].host])
        if served:
            found[place] = tuple(served)
        else:
            found.pop(place, None)
    return found
