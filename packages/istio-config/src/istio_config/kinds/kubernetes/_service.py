"""Kubernetes' Service: a name for the pods that it selects.

Source: Kubernetes' API, v1.
"""

from collections.abc import Iterator
from enum import StrEnum

import msgspec

from istio_config.addresses import is_host
from istio_config.kinds.checks import export_to_mistakes
from istio_config.kinds.fields import Labels, PortNumber, Unchecked
from istio_config.kinds.kind import Kind
from istio_config.kinds.kubernetes._kubernetes_fields import KubernetesFields, wrong_address
from istio_config.kinds.metadata import Metadata
from istio_config.proxy_ports import proxy_port_warning
from mesh_configfile.shapes import Finding

NO_CLUSTER_IP = "None"
"""The clusterIP of a headless service."""


class ServiceType(StrEnum):
    """How a service is reached."""

    CLUSTER_IP = "ClusterIP"
    NODE_PORT = "NodePort"
    LOAD_BALANCER = "LoadBalancer"
    EXTERNAL_NAME = "ExternalName"


class InternalTrafficPolicy(StrEnum):
    """Which endpoints clients inside the cluster reach."""

    CLUSTER = "Cluster"
    LOCAL = "Local"


class TrafficDistribution(StrEnum):
    """Which endpoints clients prefer."""

    PREFER_CLOSE = "PreferClose"
    PREFER_SAME_ZONE = "PreferSameZone"
    PREFER_SAME_NODE = "PreferSameNode"


class TransportProtocol(StrEnum):
    """The protocol below the application's."""

    TCP = "TCP"
    UDP = "UDP"
    SCTP = "SCTP"


class IpFamily(StrEnum):
    """A version of IP."""

    IPV4 = "IPv4"
    IPV6 = "IPv6"


class KubernetesPort(KubernetesFields, frozen=True):
    """A port of a service."""

    port: PortNumber
    name: str = ""
    protocol: TransportProtocol = TransportProtocol.TCP
    app_protocol: str | None = None
    target_port: Unchecked = None
    """A number, or the name of a port of the pods' containers."""


class KubernetesServiceSpec(KubernetesFields, frozen=True):
    """The spec of a service."""

    type: ServiceType = ServiceType.CLUSTER_IP
    cluster_ip: str = msgspec.field(default="", name="clusterIP")
    cluster_ips: tuple[str, ...] = msgspec.field(default=(), name="clusterIPs")
    ip_versions: tuple[IpFamily, ...] = msgspec.field(default=(), name="ipFamilies")
    ports: tuple[KubernetesPort, ...] | None = None
    selector: Labels | None = None
    external_ips: tuple[str, ...] = msgspec.field(default=(), name="externalIPs")
    external_name: str = ""
    publish_not_ready_addresses: bool = False
    internal_traffic_policy: InternalTrafficPolicy | None = None
    traffic_distribution: TrafficDistribution | None = None
    session_affinity: str | None = None

    @property
    def is_headless(self) -> bool:
        """Whether it is headless: `clusterIP: None`."""
        return self.cluster_ip == NO_CLUSTER_IP or NO_CLUSTER_IP in self.cluster_ips

    @property
    def addresses(self) -> tuple[str, ...]:
        """The virtual addresses, the first family first."""
        if self.is_headless:
            return ()
        given = (self.cluster_ip, *self.cluster_ips)
        return tuple(dict.fromkeys(each for each in given if each))

    @property
    def first_family(self) -> IpFamily:
        """The version of IP that clients use, if they have the choice."""
        if self.ip_versions:
            return self.ip_versions[0]
        is_ipv6 = any(":" in each for each in self.addresses[:1])
        return IpFamily.IPV6 if is_ipv6 else IpFamily.IPV4


class Ingress(KubernetesFields, frozen=True):
    """An address of a load balancer."""

    ip: str = ""
    hostname: str = ""


class LoadBalancerStatus(KubernetesFields, frozen=True):
    """The addresses of a load balancer."""

    ingress: tuple[Ingress, ...] | None = None


class KubernetesServiceStatus(KubernetesFields, frozen=True):
    """The status of a service."""

    load_balancer: LoadBalancerStatus = LoadBalancerStatus()


def _mistakes(spec: KubernetesServiceSpec, _metadata: Metadata) -> Iterator[Finding]:
    if spec.type is ServiceType.EXTERNAL_NAME:
        name = spec.external_name.removesuffix(".")
        if not name:
            yield ("externalName",), "is missing: a service of type ExternalName leads to that host"
        elif not is_host(name):
            yield ("externalName",), f'"{spec.external_name}" is not a host name'
    given = [
        (("clusterIP",), spec.cluster_ip),
        *((("clusterIPs", at), each) for at, each in enumerate(spec.cluster_ips)),
    ]
    for path, address in given:
        if address and address != NO_CLUSTER_IP and (wrong := wrong_address(address)):
            yield path, f"{wrong}; a headless service has {NO_CLUSTER_IP}"
    yield from _port_mistakes(spec.ports or ())


def _port_mistakes(ports: tuple[KubernetesPort, ...]) -> Iterator[Finding]:
    numbers: set[tuple[int, TransportProtocol]] = set()
    names: set[str] = set()
    for index, port in enumerate(ports):
        if (port.port, port.protocol) in numbers:
            yield ("ports", index, "port"), f"the port {port.port} is given twice"
        if port.name in names:
            yield ("ports", index, "name"), f'the name "{port.name}" is given twice'
        if not port.name and len(ports) > 1:
            yield ("ports", index), "has no name, which it needs beside other ports"
        target = port.target_port
        is_number = isinstance(target, int) and not isinstance(target, bool)
        if target is not None and not isinstance(target, str) and not is_number:
            yield ("ports", index, "targetPort"), "is neither a number nor the name of a port"
        elif isinstance(target, int) and not 0 <= target <= 65535:
            yield ("ports", index, "targetPort"), f"{target} is not a port; it is from 1 to 65535"
        numbers.add((port.port, port.protocol))
        names.add(port.name)


EXPORT_TO = "networking.istio.io/exportTo"
TRAFFIC_DISTRIBUTION = "networking.istio.io/traffic-distribution"
CANONICAL_ACCOUNTS = "alpha.istio.io/canonical-serviceaccounts"


def _warnings(spec: KubernetesServiceSpec, metadata: Metadata) -> Iterator[Finding]:
    for index, port in enumerate(spec.ports or ()):
        target, field = port.target_port, "targetPort"
        if target is None or target == 0:
            target, field = port.port, "port"
        if isinstance(target, int) and (warning := proxy_port_warning(target)) is not None:
            yield ("ports", index, field), warning
    annotations = metadata.annotations
    exported = [each.strip() for each in annotations.get(EXPORT_TO, "").split(",") if each.strip()]
    for _, message in export_to_mistakes(exported, metadata.namespace):
        yield (), f"the annotation {EXPORT_TO}: {message}"
    distribution = annotations.get(TRAFFIC_DISTRIBUTION, "").lower()
    known = [each.value for each in TrafficDistribution]
    if distribution and distribution not in map(str.lower, (*known, "Any")):
        yield (
            (),
            (
                f"the annotation {TRAFFIC_DISTRIBUTION} has no effect: expected one of "
                f"{', '.join(known)}, Any"
            ),
        )
    if CANONICAL_ACCOUNTS in annotations:
        yield (
            (),
            (
                f"the annotation {CANONICAL_ACCOUNTS} has no effect: identities of other kinds "
                "than service accounts' are not known here"
            ),
        )
    if spec.session_affinity == "ClientIP":
        yield (
            ("sessionAffinity",),
            "ClientIP has no effect on proxies; use consistentHash of a DestinationRule",
        )


KUBERNETES_SERVICE = Kind(
    name="Service",
    group="",
    versions=("v1",),
    spec=KubernetesServiceSpec,
    status=KubernetesServiceStatus,
    validate=_mistakes,
    warn=_warnings,
)
