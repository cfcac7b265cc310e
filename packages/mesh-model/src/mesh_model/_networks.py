"""The networks of a mesh: which endpoints are in which, and by which gateways others reach them.

An endpoint's own label or field says its network; else the cluster that it is registered in, or its
address, by MeshNetworks. Gateways are those that MeshNetworks names, and the services with the
label `topology.istio.io/network`.

Source: Istio's MeshNetworks and its network manager.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from ipaddress import IPv4Network, IPv6Network, ip_address, ip_network
from math import lcm
from typing import NamedTuple

from istio_config import ConfigObject
from istio_config.addresses import is_ip
from istio_config.kinds.kubernetes import KubernetesServiceSpec, KubernetesServiceStatus
from istio_config.kinds.mesh_networks import MeshNetworksSpec, NetworkGatewaySpec

NETWORK_LABEL = "topology.istio.io/network"
GATEWAY_PORT_LABEL = "networking.istio.io/gatewayPort"
GATEWAY_PORT = 15443
"""The port at which a gateway takes the mesh's TLS for other networks, unless a label says one."""
CLUSTER = "Kubernetes"
"""The name of the cluster whose objects are read, unless MeshNetworks calls it otherwise."""


class NetworkGateway(NamedTuple):
    """An address at which proxies of other networks reach the endpoints of a network."""

    network: str
    address: str
    """An IP address; a host name, if that is given and its addresses are not known."""
    port: int
    locality: str = ""
    cluster: str = ""

    @property
    def has_ip(self) -> bool:
        """Whether its address is one of IP."""
        return is_ip(self.address)


@dataclass(frozen=True)
class Networks:
    """The networks of a mesh; equal ones put every endpoint into the same network."""

    gateways: Mapping[str, tuple[NetworkGateway, ...]] = field(default_factory=dict)
    """Those of each network that has some, sorted by address and port."""
    ranges: tuple[tuple[IPv4Network | IPv6Network, str], ...] = ()
    """Ranges of addresses and their network, the narrowest first."""
    clusters: Mapping[str, str] = field(default_factory=dict)
    """The networks of the endpoints of clusters."""
    names: frozenset[str] = frozenset()
    """The host names of gateways, whether their addresses are known or not."""

    def gateways_of(self, network: str, cluster: str = "") -> tuple[NetworkGateway, ...]:
        """Return the gateways into a network, those of a cluster if it has some of its own."""
        found = self.gateways.get(network, ())
        own = tuple(each for each in found if cluster and each.cluster == cluster)
        return own or found

    @property
    def have_gateways(self) -> bool:
        """Whether anything depends on the network that a proxy is in."""
        return bool(self.gateways)

    @property
    def weight_factor(self) -> int:
        """The factor of all weights by which each can be divided among a network's gateways."""
        return lcm(*map(len, self.gateways.values())) if self.gateways else 1

    def network_of(self, address: str, given: str = "", *, cluster: str = "") -> str:
        """Return the network of an endpoint, of which `given` says what its own object says."""
        if given:
            return given
        if found := self.clusters.get(cluster, ""):
            return found
        if not self.ranges or not is_ip(address):
            return ""
        ip = ip_address(address)
        return next((name for network, name in self.ranges if ip in network), "")


NO_NETWORKS = Networks()


def networks_of(
    spec: MeshNetworksSpec | None,
    services: Iterable[ConfigObject],
    *,
    domain: str,
    resolved: Mapping[str, tuple[str, ...]] | None = None,
    labelled_in: str | None = None,
) -> Networks:
    """Find the networks of a mesh.

    services: the Kubernetes services. resolved: the addresses of host names of gateways.
    labelled_in: the namespace in which a label makes a service a gateway; None: in each.
    """
    services = tuple(services)
    found = [
        *_configured(spec or MeshNetworksSpec(), services, domain),
        *(
            gateway
            for each in services
            if labelled_in in (None, each.namespace)
            for gateway in _labelled(each)
        ),
    ]
    by_network: dict[str, set[NetworkGateway]] = {}
    for gateway in found:
        for each in _with_addresses(gateway, resolved or {}):
            by_network.setdefault(each.network, set()).add(each)
    networks = spec.networks if spec is not None else {}
    ranges = [
        (ip_network(each.from_cidr, strict=False), name)
        for name, network in networks.items()
        for each in network.endpoints
        if each.from_cidr
    ]
    return Networks(
        gateways={
            name: tuple(sorted(gateways, key=lambda each: (each.address, each.port)))
            for name, gateways in by_network.items()
        },
        ranges=tuple(sorted(ranges, key=lambda each: -each[0].prefixlen)),
        names=frozenset(each.address for each in found if not each.has_ip),
        clusters={
            each.from_registry: name
            for name, network in networks.items()
            for each in network.endpoints
            if each.from_registry
        },
    )


def _configured(
    spec: MeshNetworksSpec, services: tuple[ConfigObject, ...], domain: str
) -> Iterator[NetworkGateway]:
    by_host = {f"{each.name}.{each.namespace}.svc.{domain}": each for each in services}
    for name, network in spec.networks.items():
        for gateway in network.gateways:
            for address in _addresses(gateway, by_host):
                yield NetworkGateway(name, address, gateway.port, gateway.locality)


def _addresses(gateway: NetworkGatewaySpec, by_host: Mapping[str, ConfigObject]) -> tuple[str, ...]:
    if gateway.address:
        return (gateway.address,)
    service = by_host.get(gateway.registry_service_name)
    return _load_balancer(service) if service is not None else ()


def _labelled(service: ConfigObject) -> Iterator[NetworkGateway]:
    labels = dict(service.labels)
    network = labels.get(NETWORK_LABEL)
    if not network:
        return
    text = labels.get(GATEWAY_PORT_LABEL, "")
    port = int(text) if text.isascii() and text.isdigit() else GATEWAY_PORT
    for address in _load_balancer(service):
        yield NetworkGateway(network, address, port, cluster=service.origin.cluster or CLUSTER)


def _load_balancer(service: ConfigObject) -> tuple[str, ...]:
    """Return the addresses at which callers outside its own cluster reach a service."""
    status, spec = service.status, service.spec
    ingress = (
        status.load_balancer.ingress or () if isinstance(status, KubernetesServiceStatus) else ()
    )
    given = tuple(each.ip or each.hostname for each in ingress if each.ip or each.hostname)
    own = spec.external_ips if isinstance(spec, KubernetesServiceSpec) else ()
    return tuple(dict.fromkeys((*given, *own)))


def _with_addresses(
    gateway: NetworkGateway, resolved: Mapping[str, tuple[str, ...]]
) -> Iterator[NetworkGateway]:
    addresses = resolved.get(gateway.address, ())
    if not addresses or is_ip(gateway.address):
        yield gateway
    for address in () if is_ip(gateway.address) else addresses:
        yield gateway._replace(address=address)
