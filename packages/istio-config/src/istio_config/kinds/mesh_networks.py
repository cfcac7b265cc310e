"""MeshNetworks: which endpoints are in which network, and the gateways of each network.

Source: Istio's API, mesh/v1alpha1.
"""

from collections.abc import Iterator

import msgspec

from istio_config.addresses import is_host, is_ip, is_network
from istio_config.kinds.fields import PortNumber, SpecFields, Text
from istio_config.kinds.kind import Kind
from istio_config.kinds.metadata import Metadata
from mesh_configfile.shapes import Finding


class NetworkEndpoints(SpecFields, frozen=True):
    """Endpoints of a network: by their addresses, or by the cluster whose registry has them."""

    from_cidr: str = ""
    from_registry: str = ""


class NetworkGatewaySpec(SpecFields, frozen=True):
    """A gateway into a network: by its address, or by the service that it is."""

    port: PortNumber
    address: str = ""
    registry_service_name: str = ""
    locality: str = ""


class NetworkSpec(SpecFields, frozen=True):
    """One network."""

    endpoints: tuple[NetworkEndpoints, ...] = ()
    gateways: tuple[NetworkGatewaySpec, ...] = ()


class MeshNetworksSpec(SpecFields, frozen=True):
    """The networks of a mesh, by name."""

    networks: dict[Text, NetworkSpec] = msgspec.field(default_factory=dict)


def _mistakes(spec: MeshNetworksSpec, _metadata: Metadata) -> Iterator[Finding]:
    for name, network in spec.networks.items():
        for index, endpoints in enumerate(network.endpoints):
            path = ("networks", name, "endpoints", index)
            if bool(endpoints.from_cidr) == bool(endpoints.from_registry):
                yield path, "must have either fromCidr or fromRegistry"
            elif endpoints.from_cidr and not is_network(endpoints.from_cidr):
                yield (
                    (*path, "fromCidr"),
                    f'"{endpoints.from_cidr}" is not a range of addresses such as 10.1.0.0/16',
                )
        for index, gateway in enumerate(network.gateways):
            path = ("networks", name, "gateways", index)
            if bool(gateway.address) == bool(gateway.registry_service_name):
                yield path, "must have either address or registryServiceName"
            elif gateway.address and not (is_ip(gateway.address) or is_host(gateway.address)):
                yield (
                    (*path, "address"),
                    f'"{gateway.address}" is not an IP address or a host name',
                )


def _warnings(spec: MeshNetworksSpec, _metadata: Metadata) -> Iterator[Finding]:
    for name, network in spec.networks.items():
        if not network.gateways:
            yield (
                ("networks", name),
                "has no gateways: its endpoints are called directly from every network",
            )


MESH_NETWORKS = Kind(
    name="MeshNetworks",
    group="mesh.istio.io",
    versions=("v1alpha1",),
    spec=MeshNetworksSpec,
    validate=_mistakes,
    warn=_warnings,
    is_single=True,
)
