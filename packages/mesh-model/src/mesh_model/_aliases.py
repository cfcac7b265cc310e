"""Services by the hosts that routes name: their own, or those of services of type ExternalName."""

from collections.abc import Mapping
from functools import cached_property
from typing import NamedTuple

from mesh_model._services import Service


class Destined(NamedTuple):
    """The service to which a destination leads."""

    service: Service
    only_port: int | None
    """The port that a destination means which names none; None: that of the request."""


class ServicesByName:
    """Finds services by host, and by those of their aliases.

    An alias stands for its target: there are no clusters of its name.
    """

    def __init__(self, services: Mapping[str, Service]) -> None:
        self._services = services

    def find(self, host: str) -> Destined | None:
        """Return the service of a destination's host, if there is one."""
        service = self._services.get(host)
        if service is not None:
            return Destined(service, _only_port(service))
        # Of the hosts that routes name few are no service's, and most meshes have no alias.
        return self._aliased.get(host)

    @cached_property
    def _aliased(self) -> Mapping[str, Destined]:
        found: dict[str, Destined] = {}
        for service in self._services.values():
            ports = dict(service.alias_ports)
            for _, alias in service.aliases:
                found[alias] = Destined(service, ports.get(alias, _only_port(service)))
        return found


def _only_port(service: Service) -> int | None:
    return service.ports[0].number if len(service.ports) == 1 else None
