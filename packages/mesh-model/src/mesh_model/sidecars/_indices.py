"""The indices by which Sidecars find services and VirtualServices, built when first read."""

from collections.abc import Sequence
from functools import cached_property

from mesh_model._services import Service
from mesh_model.sidecars._service_index import ServiceIndex
from mesh_model.sidecars._virtual_service_index import VirtualServiceIndex
from mesh_model.virtual_services._virtual_services import VirtualServices


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
