"""Which services the proxies of a namespace know of."""

from collections.abc import Iterable

from mesh_model._services import Registry, Service


def visible_services(services: Iterable[Service], namespace: str) -> dict[str, Service]:
    """Return the services that are exported to a namespace, by host.

    Of several services of one host, the namespace's own comes first, then one of Kubernetes, then
    the oldest.
    """
    found: dict[str, Service] = {}
    for service in services:
        if not service.visible_in(namespace):
            continue
        known = found.get(service.host)
        if known is None:
            found[service.host] = service
        elif is_preferred(service, known, namespace):
            del found[service.host]  # it comes in its own place
            found[service.host] = service
    return found


def is_preferred(service: Service, older: Service, namespace: str) -> bool:
    """Return whether a namespace takes a service rather than an older one of the same host."""
    if namespace in (service.namespace, older.namespace):
        return service.namespace == namespace
    return service.registry is Registry.KUBERNETES and older.registry is not Registry.KUBERNETES
