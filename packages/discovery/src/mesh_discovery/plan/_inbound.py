"""The ports on which a proxy accepts connections for its own workload."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

from mesh_discovery.config.kinds._peer_authentication import MutualTlsMode
from mesh_discovery.config.kinds._protocol import Protocol
from mesh_discovery.model._model import MeshModel
from mesh_discovery.model._services import Port
from mesh_discovery.plan._proxy import Proxy


class Application(NamedTuple):
    """Where the workload's own process listens, and what it speaks."""

    address: str
    port: int
    protocol: Protocol


@dataclass(frozen=True, slots=True, kw_only=True)
class InboundPort:
    """One address on which a proxy accepts for its workload, and how."""

    bind: str
    number: int
    service_port: int
    protocol: Protocol
    mode: MutualTlsMode
    app_address: str
    host: str = ""
    """Of the service."""

    @property
    def application(self) -> Application:
        """The application behind the port."""
        return Application(self.app_address, self.number, self.protocol)


@dataclass(frozen=True, slots=True, kw_only=True)
class InboundPlan:
    """The ports that a proxy accepts on for its workload, in order of bind address and number.

    taken: the addresses and ports where the proxy or its workload listens, so that no outbound
    listener can.
    """

    ports: tuple[InboundPort, ...] = ()
    taken: frozenset[tuple[str, int]] = frozenset()


def plan_inbound(proxy: Proxy, model: MeshModel) -> InboundPlan:
    """Return the inbound ports of a proxy; of two services that want one port, the older decides.

    Where the application itself listens on the workload's address, there is no port to take: it
    is left out, since Envoy could not bind it.
    """
    found: dict[tuple[str, int], InboundPort] = {}
    for bind, host, port, number, labels in _served(proxy, model) if proxy.is_sidecar else ():
        if (bind, number) in found or bind == proxy.app_address:
            continue
        found[bind, number] = InboundPort(
            bind=bind,
            number=number,
            service_port=port.number,
            protocol=port.protocol,
            mode=model.policies.mode(proxy.namespace, labels, number),
            app_address=proxy.app_address,
            host=host,
        )
    by_application = {
        (proxy.app_address, endpoint.port_for(port))
        for address in proxy.addresses
        for service, endpoint in model.by_address.get((proxy.namespace, address), ())
        for port in service.ports
    }
    by_proxy = {
        place
        for each in found.values()
        for place in ((each.bind, each.number), (each.app_address, each.number))
    }
    return InboundPlan(
        ports=tuple(found[key] for key in sorted(found)),
        taken=frozenset(by_application | by_proxy),
    )


def _served(proxy: Proxy, model: MeshModel) -> Iterator[tuple[str, str, Port, int, dict[str, str]]]:
    """Yield the workload's addresses with each service's port there, and the endpoint's labels."""
    for bind in proxy.addresses:
        for service, endpoint in model.by_address.get((proxy.namespace, bind), ()):
            labels = {**dict(endpoint.labels), **dict(proxy.labels)}
            for port in service.ports:
                if port.protocol is not Protocol.UDP:
                    yield bind, service.host, port, endpoint.port_for(port), labels
