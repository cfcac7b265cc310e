"""The indices by which Sidecars find services and VirtualServices, built when first read."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cached_property

from istio_config.kinds.sidecar import ANY
from mesh_model._hosts import HostRanges
from mesh_model._services import Service, ServiceKey
from mesh_model.virtual_services._resolved_names import MESH
from mesh_model.virtual_services._virtual_services import VirtualService, VirtualServices


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


class VirtualServiceIndex:
    """Finds the VirtualServices that have a host in common with a pattern."""

    def __init__(self, virtual_services: VirtualServices) -> None:
        self.virtual_services = virtual_services
        by_namespace: dict[str, list[tuple[str, VirtualService]]] = {ANY: []}
        self._order: dict[VirtualService, int] = {}
        for each in virtual_services.all:
            if MESH not in each.gateways:
                continue
            self._order[each] = len(self._order)
            hosts = [(host, each) for host in each.hosts]
            by_namespace.setdefault(each.namespace, []).extend(hosts)
            by_namespace[ANY].extend(hosts)
        self._by_namespace = {
            namespace: HostRanges(hosts) for namespace, hosts in by_namespace.items()
        }

    def find(self, namespace: str, pattern: str) -> Iterator[VirtualService]:
        """Yield those of a namespace, or of any (`*`)."""
        hosts = self._by_namespace.get(namespace)
        if hosts is not None:
            yield from hosts.overlapping(pattern)

    def in_order(
        self, found: Iterable[VirtualService], namespace: str
    ) -> tuple[VirtualService, ...]:
        """Return those that a namespace's proxies see, in the order in which they win."""
        seen = {each for each in found if each.mesh_export_to & {namespace, ANY}}
        return tuple(sorted(seen, key=lambda each: (_layer(each, namespace), self._order[each])))


def _layer(virtual_service: VirtualService, namespace: str) -> int:
    """Return the place of its layer: private ones, those exported by name, public ones."""
    if ANY in virtual_service.mesh_export_to:
        return 2
    return 0 if virtual_service.namespace == namespace else 1


class Indices:
    """The indices of one model; those of the model before stay in use where they are right."""

    def __init__(
        self,
        services: Sequence[Service],
        virtual_services: VirtualServices,
        *,
        before: "Indices | None" = None,
    ) -> None:
        self._services = services
        self._virtual_services = virtual_services
        self._known_services = before.known_services if before is not None else None
        self._known_routes = before.known_virtual_services if before is not None else None

    @cached_property
    def services(self) -> ServiceIndex:
        """All services, by namespace and host."""
        return ServiceIndex.build(self._services, self._known_services)

    def aliased(self, host: str) -> ServiceKey | None:
        """Return the service for which the ExternalName service of a host stands."""
        return self._aliases.get(host)

    @cached_property
    def _aliases(self) -> Mapping[str, ServiceKey]:
        return {
            host: (service.namespace, service.host)
            for service in self._services
            for _, host in service.aliases
        }

    @cached_property
    def virtual_services(self) -> VirtualServiceIndex:
        """The VirtualServices of sidecars, by namespace and host."""
        known = self._known_routes
        if known is not None and known.virtual_services is self._virtual_services:
            return known
        return VirtualServiceIndex(self._virtual_services)

    @property
    def known_services(self) -> ServiceIndex | None:
        """The index of services that was built last, if any."""
        built: ServiceIndex | None = self.__dict__.get("services")
        return built if built is not None else self._known_services

    @property
    def known_virtual_services(self) -> VirtualServiceIndex | None:
        """The index of VirtualServices that was built last, if any."""
        built: VirtualServiceIndex | None = self.__dict__.get("virtual_services")
        return built if built is not None else self._known_routes
