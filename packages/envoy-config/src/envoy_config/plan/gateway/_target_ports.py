"""The services that a router serves: on which ports it listens for theirs."""

from collections.abc import Iterator, Mapping

from envoy_config.plan._proxy import Proxy
from istio_config.kinds.protocol import Protocol
from mesh_model import Endpoint, MeshModel, Service


def target_ports(proxy: Proxy, model: MeshModel) -> Mapping[int, tuple[int, ...]]:
    """Return the ports of the services that a router serves, with those that it listens on.

    Clients of a Gateway name the service's port; what is before the router, such as a load
    balancer, leads them to the target port.
    """
    found: dict[int, set[int]] = {}
    for service, endpoint in _served(proxy, model):
        for port in service.ports:
            if port.protocol is not Protocol.UDP and endpoint.serves(port):
                found.setdefault(port.number, set()).add(endpoint.port_for(port))
    return {number: tuple(sorted(targets)) for number, targets in sorted(found.items())}


def served_hosts(proxy: Proxy, model: MeshModel) -> frozenset[str]:
    """Return the hosts of the services that a router serves."""
    return frozenset(service.host for service, _ in _served(proxy, model))


def _served(proxy: Proxy, model: MeshModel) -> Iterator[tuple[Service, Endpoint]]:
    for address in proxy.addresses:
        yield from model.by_address.get((proxy.namespace, address), ())
