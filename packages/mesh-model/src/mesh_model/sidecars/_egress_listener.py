"""The hosts that a workload's calls can reach together, and where its proxy listens for them."""

from collections.abc import Callable
from dataclasses import dataclass, replace

from istio_config.edits import replacements
from istio_config.kinds.sidecar import CaptureMode, SidecarPort
from mesh_model._services import Service
from mesh_model.virtual_services._virtual_services import VirtualService


@dataclass(frozen=True, kw_only=True)
class EgressListener:
    """Services that a workload's calls can reach together; without a Sidecar, all that it knows."""

    services: tuple[Service, ...]
    """The oldest first; of a listener with a port only with that port (`Service.ports`)."""
    virtual_services: tuple[VirtualService, ...] = ()
    """Those of the mesh that have hosts here, in the order in which they win."""
    port: SidecarPort | None = None
    """None: the services are reached by all ports that they have."""
    bind: str = ""
    """An IP address or `unix:///path`; empty: as other listeners."""
    capture_mode: CaptureMode = CaptureMode.DEFAULT

    @property
    def is_http_proxy(self) -> bool:
        """Whether the workload speaks to it as to an HTTP proxy; all ports are reached by it."""
        return self.port is not None and self.port.is_http_proxy

    def replacing(self, change: Callable[[Service], Service]) -> "EgressListener":
        """Return the listener with each service changed; itself, if none is."""
        services = tuple(map(change, self.services))
        same = not replacements(self.services, services)
        return self if same else replace(self, services=services)


def with_ports(service: Service, numbers: frozenset[int] | None) -> Service:
    """Return a service with only the ports of these numbers; None: with all."""
    if numbers is None or all(port.number in numbers for port in service.ports):
        return service
    return replace(service, ports=tuple(port for port in service.ports if port.number in numbers))
