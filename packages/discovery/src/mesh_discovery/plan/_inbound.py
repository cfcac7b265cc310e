"""What a proxy stands in front of: the ports of services that its own workload serves."""

from collections.abc import Iterator
from dataclasses import dataclass

from mesh_discovery.config.kinds._peer_authentication import MutualTlsMode
from mesh_discovery.config.kinds._protocol import Protocol
from mesh_discovery.model._model import MeshModel
from mesh_discovery.model._services import Port, Service
from mesh_discovery.plan._proxy import Proxy


@dataclass(frozen=True, slots=True, kw_only=True)
class InboundPort:
    """One address on which a proxy accepts for its workload, and how."""

    bind: str
    number: int
    service_port: int
    protocol: Protocol
    mode: MutualTlsMode
    app_address: str


def inbound_ports(proxy: Proxy, model: MeshModel) -> tuple[InboundPort, ...]:
    """Return the ports in order of bind address and number; of two services the older decides.

    Where the application itself listens on the workload's address, there is no port to take: it
    is left out, since Envoy could not bind it.
    """
    if not proxy.is_sidecar:
        return ()
    found: dict[tuple[str, int], InboundPort] = {}
    for bind, service, port, number, labels in _served(proxy, model):
        del service
        if (bind, number) in found or bind == proxy.app_address:
            continue
        found[bind, number] = InboundPort(
            bind=bind,
            number=number,
            service_port=port.number,
            protocol=port.protocol,
            mode=model.policies.mode(proxy.namespace, labels, number),
            app_address=proxy.app_address,
        )
    return tuple(found[key] for key in sorted(found))


def _served(
    proxy: Proxy, model: MeshModel
) -> Iterator[tuple[str, Service, Port, int, dict[str, str]]]:
    for bind in proxy.addresses:
        for service, endpoint in model.by_address.get((proxy.namespace, bind), ()):
            labels = {**dict(endpoint.labels), **dict(proxy.labels)}
            for port in service.ports:
                if port.protocol is not Protocol.UDP:
                    yield bind, service, port, endpoint.port_for(port), labels
