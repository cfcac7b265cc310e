"""Which services the proxies of a namespace know of."""

from collections.abc import Iterable

from mesh_discovery.model._services import Service


def visible_services(services: Iterable[Service], namespace: str) -> dict[str, Service]:
    """Return the services that are exported to a namespace, by host.

    Of several services of one host, the namespace's own comes first, then the oldest.
    """
    found: dict[str, Service] = {}
    for service in services:
        if not service.visible_in(namespace):
            continue
        known = found.get(service.host)
        if known is None or (known.namespace != namespace and service.namespace == namespace):
            found[service.host] = service
    return found
