"""Builds the services of Kubernetes Services, with the endpoints that the cluster publishes.

Source: Istio's Kubernetes registry, for the annotations and labels.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from istio_config import ConfigObject
from istio_config.kinds.kubernetes import (
    EXPORT_TO,
    TRAFFIC_DISTRIBUTION,
    InternalTrafficPolicy,
    IpFamily,
    KubernetesPort,
    KubernetesServiceSpec,
    PodSpec,
    PodStatus,
    ServiceType,
    TrafficDistribution,
    TransportProtocol,
    listed,
)
from istio_config.kinds.protocol import Protocol
from istio_config.kinds.service_entry import Resolution
from istio_config.kinds.workload_entry import WorkloadEntrySpec
from mesh_model._services import Endpoint, Health, Port, Registry, Service
from mesh_model.kubernetes._published_endpoints import ByService, Pods, name_of, published_endpoints
from mesh_model.workloads._service_settings import ServiceSettings
from mesh_model.workloads._workload_endpoints import pod_endpoint, pod_health, workload_endpoint
from mesh_model.workloads._workloads import Workloads

ACCOUNTS = "alpha.istio.io/kubernetes-serviceaccounts"
SESSION_COOKIE_LABEL = "istio.io/persistent-session"
SESSION_HEADER_LABEL = "istio.io/persistent-session-header"


@dataclass(frozen=True, kw_only=True)
class ClusterObjects:
    """The objects of clusters from which services get endpoints."""

    slices: ByService = field(default_factory=ByService)
    endpoints: ByService = field(default_factory=ByService)
    pods: Pods = field(default_factory=Pods)
    pods_by_label: Workloads = field(default_factory=Workloads)
    entries: Workloads = field(default_factory=Workloads)


def kubernetes_host(name: str, namespace: str, domain: str) -> str:
    """`reviews.default.svc.cluster.local`."""
    return f"{name}.{namespace}.svc.{domain}"


def kubernetes_service(
    item: ConfigObject,
    spec: KubernetesServiceSpec,
    cluster: ClusterObjects,
    settings: ServiceSettings,
) -> Service:
    """Build the service of a Kubernetes Service."""
    annotations, labels = dict(item.annotations), dict(item.labels)
    is_alias = spec.type is ServiceType.EXTERNAL_NAME
    export_to = listed(annotations.get(EXPORT_TO, "")) or settings.export_to
    external_name = spec.external_name.removesuffix(".").lower() if is_alias else ""
    return Service(
        host=kubernetes_host(item.name, item.namespace, settings.domain).lower(),
        namespace=item.namespace,
        name=item.name,
        registry=Registry.KUBERNETES,
        labels=item.labels,
        selector=tuple(sorted((spec.selector or {}).items())),
        ports=tuple(_port(each) for each in _carried(spec)),
        endpoints=_external(item, external_name)
        if is_alias
        else _endpoints(item, spec, cluster, settings),
        addresses=() if is_alias else spec.addresses,
        resolution=_resolution(spec),
        external=is_alias,
        external_name=external_name,
        export_to=export_to,
        takes_any_address=settings.owners.is_at_home(item.namespace, export_to),
        accounts=listed(annotations.get(ACCOUNTS, "")),
        is_node_local=spec.internal_traffic_policy is InternalTrafficPolicy.LOCAL,
        traffic_distribution=_distribution(spec, annotations),
        session_cookie=labels.get(SESSION_COOKIE_LABEL, ""),
        session_header=labels.get(SESSION_HEADER_LABEL, ""),
    )


def of_clusters(services: Sequence[Service]) -> Service:
    """Merge the services of one name in several clusters, the oldest first: Istio's multi-primary.

    The oldest's fields are those of the result, its ports too, with the endpoints and the service
    accounts of all (pilot/pkg/serviceregistry/aggregate). Istio keeps the address of each cluster
    and gives a proxy that of its own; here all proxies have the oldest's, by which the agent's DNS
    resolves the name in each cluster. A headless service, whose name leads to its endpoints'
    addresses, is not merged: those of other clusters can't be reached by address.
    """
    first = services[0]
    if len(services) == 1 or first.resolution is not Resolution.STATIC:
        return first
    merged = [each for each in services if each.resolution is first.resolution]
    return replace(
        first,
        endpoints=tuple(dict.fromkeys(one for each in merged for one in each.endpoints)),
        accounts=tuple(dict.fromkeys(one for each in merged for one in each.accounts)),
    )


def _resolution(spec: KubernetesServiceSpec) -> Resolution:
    if spec.type is ServiceType.EXTERNAL_NAME:
        return Resolution.DNS
    return Resolution.NONE if spec.is_headless else Resolution.STATIC


def _external(item: ConfigObject, external_name: str) -> tuple[Endpoint, ...]:
    return (Endpoint(address=external_name, ports=(), namespace=item.namespace),)


def _distribution(spec: KubernetesServiceSpec, annotations: Mapping[str, str]) -> str:
    given = annotations.get(TRAFFIC_DISTRIBUTION)
    if given is not None:
        by_name = {each.value.lower(): each.value for each in TrafficDistribution}
        return by_name.get(given.lower(), "")
    return spec.traffic_distribution.value if spec.traffic_distribution is not None else ""


def _carried(spec: KubernetesServiceSpec) -> tuple[KubernetesPort, ...]:
    """Return the ports that a proxy can carry: not those of SCTP, which Istio leaves out, too."""
    return tuple(each for each in spec.ports or () if each.protocol is not TransportProtocol.SCTP)


def _port(port: KubernetesPort) -> Port:
    protocol = Protocol.UDP
    if port.protocol is TransportProtocol.TCP:
        protocol = Protocol.from_kubernetes_port(port.app_protocol, port.name, port.port)
    target = port.target_port if isinstance(port.target_port, int) else 0
    return Port(number=port.port, name=port.name, protocol=protocol, target=target or port.port)


def _endpoints(
    item: ConfigObject,
    spec: KubernetesServiceSpec,
    cluster: ClusterObjects,
    settings: ServiceSettings,
) -> tuple[Endpoint, ...]:
    """Return the published endpoints, or else those of the selected pods, then WorkloadEntries."""
    key = name_of(item)
    family = spec.first_family
    published = cluster.slices.get(key) or cluster.endpoints.get(key)
    if published:
        found = published_endpoints(published, cluster.pods, settings, family=family)
    else:
        found = _of_pods(item, spec, cluster, settings, family)
    if spec.publish_not_ready_addresses:
        found = tuple(replace(each, health=Health.HEALTHY) for each in found)
    return (*found, *_of_entries(item, spec, cluster, settings))


def _of_pods(
    item: ConfigObject,
    spec: KubernetesServiceSpec,
    cluster: ClusterObjects,
    settings: ServiceSettings,
    family: IpFamily,
) -> tuple[Endpoint, ...]:
    found = []
    for pod in cluster.pods_by_label.selected(item.namespace, spec.selector or {}):
        health = pod_health(pod)
        if health is None or not isinstance(pod.spec, PodSpec):
            continue
        if pod.origin.cluster != item.origin.cluster:
            continue
        address = _address(pod, family)
        ports = tuple(
            (port.name, number)
            for port in _carried(spec)
            if (number := _target(port, pod.spec)) is not None
        )
        endpoint = pod_endpoint(pod, address, settings, ports=ports, health=health)
        hostname = pod.spec.hostname if pod.spec.subdomain == item.name else ""
        found.append(replace(endpoint, has_named_ports_only=True, hostname=hostname))
    return tuple(found)


def _address(pod: ConfigObject, family: IpFamily) -> str:
    addresses = pod.status.addresses if isinstance(pod.status, PodStatus) else ()
    wants_ipv6 = family is IpFamily.IPV6
    return next((each for each in addresses if (":" in each) is wants_ipv6), addresses[0])


def _target(port: KubernetesPort, pod: PodSpec) -> int | None:
    """Return where a pod serves a port; None where it has no port of the name."""
    if isinstance(port.target_port, str) and port.target_port:
        return pod.port_named(port.target_port, port.protocol)
    return (port.target_port if isinstance(port.target_port, int) else 0) or port.port


def _of_entries(
    item: ConfigObject,
    spec: KubernetesServiceSpec,
    cluster: ClusterObjects,
    settings: ServiceSettings,
) -> tuple[Endpoint, ...]:
    """Return the endpoints of the WorkloadEntries that a service selects, as it does pods."""
    found = []
    for entry in cluster.entries.selected(item.namespace, spec.selector or {}):
        endpoint = workload_endpoint(entry, settings)
        if (
            endpoint is None
            or not (endpoint.has_ip or not endpoint.address)
            or not isinstance(entry.spec, WorkloadEntrySpec)
        ):
            continue
        named = entry.spec.ports
        ports = tuple(
            (port.name, number)
            for port in _carried(spec)
            if (number := _target_of_entry(port, named)) is not None
        )
        found.append(replace(endpoint, ports=ports, has_named_ports_only=True))
    return tuple(found)


def _target_of_entry(port: KubernetesPort, named: Mapping[str, int]) -> int | None:
    target = port.target_port
    if isinstance(target, str) and target:
        return named.get(port.name) or named.get(target)
    return named.get(port.name) or (target if isinstance(target, int) else 0) or port.port
