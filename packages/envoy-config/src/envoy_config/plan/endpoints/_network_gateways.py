"""Endpoints in other networks, which a client reaches by the gateways of their network.

A gateway passes on the mesh's own TLS, by the name of the service that the client asks for: an
endpoint that takes no mutual TLS is not reached from another network.

Source: Istio's EndpointsByNetworkFilter.
"""

from collections.abc import Callable, Iterable
from dataclasses import replace

from envoy_config.plan._locality import endpoint_weight
from mesh_model import NETWORK_LABEL, Endpoint, Health, NetworkGateway, Networks, Port, Service

Gateways = tuple[NetworkGateway, ...]


def depends_on_network(service: Service, networks: Networks) -> bool:
    """Return whether clients in different networks have different ways to a service."""
    return networks.have_gateways and any(
        each.network in networks.gateways for each in service.endpoints
    )


def through_gateways(
    endpoints: Iterable[Endpoint],
    service: Service,
    port: Port,
    networks: Networks,
    *,
    network: str,
    by_name: bool,
    takes_mutual_tls: Callable[[Endpoint], bool],
) -> tuple[Endpoint, ...]:
    """Put the gateways of other networks in the place of the endpoints there.

    network: that of the client; empty if it is not known. by_name: whether gateways may be named,
    for Envoy to look up. Weights are multiplied, so that those of endpoints behind gateways can be
    divided among them.
    """
    if not depends_on_network(service, networks):
        return tuple(each for each in endpoints if each.address)
    direct: list[Endpoint] = []
    weights: dict[tuple[str, NetworkGateway], int] = {}
    factor = networks.weight_factor
    for each in endpoints:
        gateways = _gateways(each, networks, network, by_name=by_name)
        if not gateways:
            if each.address:
                direct.append(replace(each, weight=endpoint_weight(each) * factor))
        elif each.health is Health.HEALTHY and takes_mutual_tls(each):
            share = endpoint_weight(each) * factor // len(gateways)
            for gateway in gateways:
                key = each.locality, gateway
                weights[key] = weights.get(key, 0) + share
    behind = [
        _gateway_endpoint(gateway, weight, locality, service, port)
        for (locality, gateway), weight in sorted(weights.items(), key=_place)
    ]
    return (*direct, *behind)


def _place(item: tuple[tuple[str, NetworkGateway], int]) -> tuple[str, str, int]:
    (locality, gateway), _ = item
    return locality, gateway.address, gateway.port


def _gateways(endpoint: Endpoint, networks: Networks, network: str, *, by_name: bool) -> Gateways:
    """Return the gateways by which a client of a network reaches an endpoint; none: directly."""
    if not endpoint.network or endpoint.network == network:
        return ()
    return tuple(each for each in networks.gateways_of(endpoint.network) if by_name or each.has_ip)


def _gateway_endpoint(
    gateway: NetworkGateway, weight: int, locality: str, service: Service, port: Port
) -> Endpoint:
    return Endpoint(
        address=gateway.address,
        ports=((port.name, gateway.port),),
        has_named_ports_only=True,
        namespace=service.namespace,
        labels=((NETWORK_LABEL, gateway.network),),
        network=gateway.network,
        locality=locality,
        weight=weight,
        is_network_gateway=True,
    )
