"""Endpoints of a Kubernetes Service as its cluster publishes them: EndpointSlices or Endpoints.

They are indexed by their service, and pods by name, since an endpoint refers to its pod.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from istio_config import ConfigObject
from istio_config.kinds.kubernetes import (
    SERVICE_NAME_LABEL,
    AddressType,
    Conditions,
    EndpointAddress,
    EndpointPort,
    EndpointsFields,
    EndpointSliceFields,
    IpFamily,
    SliceEndpoint,
    TargetReference,
)
from mesh_model._derived import Derived, grouped
from mesh_model._object_changes import same_content
from mesh_model._services import Endpoint, Health
from mesh_model.workloads._service_settings import ServiceSettings
from mesh_model.workloads._workload_endpoints import pod_endpoint, same_pod

Name = tuple[str, str, str]
"""Namespace and name, and the cluster."""
_ServicesOfPods = Mapping[str, Mapping[tuple[str, str], frozenset[Name]]]
"""By the namespaces of the pods, then by their names and clusters."""
_Grouped = Derived[ConfigObject, Name, tuple[ConfigObject, ...]]


@dataclass(frozen=True)
class ByService:
    """EndpointSlices or Endpoints by the service that they belong to."""

    derived: _Grouped = field(default_factory=Derived)
    by_pod: _ServicesOfPods = field(default_factory=dict, repr=False)
    """The services by the pods that their endpoints refer to (`targetRef`)."""

    @classmethod
    def build(cls, objects: Iterable[ConfigObject], *, before: "ByService") -> "ByService":
        """Index objects by service; indices of unchanged services are kept."""
        derived = grouped(objects, service_of, before=before.derived, same=same_content)
        return cls(derived, _by_pod(before.by_pod, before.derived, derived))

    @property
    def objects(self) -> tuple[ConfigObject, ...]:
        """All of them, as they were read last."""
        return self.derived.objects

    def get(self, service: Name) -> tuple[ConfigObject, ...]:
        """Return the objects of a service, by name."""
        return tuple(sorted(self.derived.values.get(service, ()), key=lambda each: each.name))

    def of_pod(self, pod: Name) -> frozenset[Name]:
        """Return the services that have an endpoint whose `targetRef` is this pod."""
        return self.by_pod.get(pod[0], {}).get(pod[1:], frozenset())


def name_of(item: ConfigObject) -> Name:
    """Return the name by which objects of the same cluster refer to this one."""
    return item.namespace, item.name, item.origin.cluster


def service_of(item: ConfigObject) -> Name:
    """Return the service that a slice names, or that Endpoints have the name of."""
    if not isinstance(item.spec, EndpointSliceFields):
        return name_of(item)
    name = next((value for key, value in item.labels if key == SERVICE_NAME_LABEL), "")
    return item.namespace, name, item.origin.cluster


def _by_pod(before: _ServicesOfPods, was: _Grouped, now: _Grouped) -> _ServicesOfPods:
    """Return the services of each pod after an edit of slices or Endpoints.

    It costs a copy of the index of each namespace whose pods are concerned.
    """
    copied: dict[str, dict[tuple[str, str], frozenset[Name]]] = {}
    for service in now.touched:
        gone, come = (set(targets(each.values.get(service, ()))) for each in (was, now))
        for namespace, name, cluster in gone ^ come:
            if namespace not in copied:
                copied[namespace] = dict(before.get(namespace, {}))
            pod = name, cluster
            services = copied[namespace].pop(pod, frozenset()) ^ {service}
            if services:
                copied[namespace][pod] = services
    return {**before, **copied} if copied else before


@dataclass(frozen=True)
class Pods:
    """Pods by their names."""

    derived: _Grouped = field(default_factory=Derived)

    @classmethod
    def build(cls, objects: Iterable[ConfigObject], *, before: "Pods") -> "Pods":
        """Sort pods by name."""
        return cls(grouped(objects, name_of, before=before.derived, same=same_pod))

    @property
    def objects(self) -> tuple[ConfigObject, ...]:
        """All of them, as they were read last."""
        return self.derived.objects

    def target(self, reference: TargetReference | None, of: ConfigObject) -> ConfigObject | None:
        """Return the pod that an endpoint refers to; of: the object that the endpoint is in."""
        if reference is None or reference.kind != "Pod":
            return None
        pods = self.derived.values.get(_named(reference, of))
        return pods[-1] if pods else None


def targets(items: Sequence[ConfigObject]) -> Iterator[Name]:
    """Yield the names of the pods that endpoints in slices or Endpoints refer to."""
    for item in items:
        match item.spec:
            case EndpointSliceFields(endpoints=endpoints):
                references = [each.target_ref for each in endpoints or ()]
            case EndpointsFields(subsets=subsets):
                references = [
                    address.target_ref
                    for subset in subsets or ()
                    for address in (*(subset.addresses or ()), *(subset.not_ready_addresses or ()))
                ]
            case _:
                references = []
        for each in references:
            if each is not None and each.kind == "Pod":
                yield _named(each, item)


def _named(reference: TargetReference, of: ConfigObject) -> Name:
    return reference.namespace or of.namespace, reference.name, of.origin.cluster


Ports = tuple[tuple[str, int], ...]


def published_endpoints(
    items: Sequence[ConfigObject],
    pods: Pods,
    settings: ServiceSettings,
    *,
    family: IpFamily,
) -> tuple[Endpoint, ...]:
    """Return the endpoints in the slices, or the Endpoints, of one service.

    A pod with an IPv4 and an IPv6 address is there twice, and is one endpoint: by its address of
    `family`. An endpoint that is in two slices, as while one replaces the other, is one, too.
    """
    found: dict[tuple[str, Ports], Endpoint] = {}
    for item in items:
        for endpoint in _endpoints_in(item, pods, settings):
            found.setdefault((endpoint.address, endpoint.ports), endpoint)
    endpoints = tuple(found.values())
    preferred = tuple(each for each in endpoints if _family(each.address) is family)
    return preferred or endpoints


def _family(address: str) -> IpFamily:
    return IpFamily.IPV6 if ":" in address else IpFamily.IPV4


def _endpoints_in(item: ConfigObject, pods: Pods, settings: ServiceSettings) -> Iterator[Endpoint]:
    match item.spec:
        case EndpointSliceFields() as found:
            if found.address_type is AddressType.FQDN:
                return
            ports = _ports(found.ports)
            for each in found.endpoints or ():
                for address in each.addresses[:1]:
                    yield _of_slice(each, address, ports, item, pods, settings)
        case EndpointsFields(subsets=subsets):
            for subset in subsets or ():
                ports = _ports(subset.ports)
                for ready in subset.addresses or ():
                    yield _of_subset(ready, ports, Health.HEALTHY, item, pods, settings)
                for unready in subset.not_ready_addresses or ():
                    yield _of_subset(unready, ports, Health.UNHEALTHY, item, pods, settings)
        case _:
            pass


def _ports(ports: Sequence[EndpointPort] | None) -> Ports:
    return tuple((each.name or "", each.port) for each in ports or () if each.port is not None)


def _of_slice(  # noqa: PLR0917
    each: SliceEndpoint,
    address: str,
    ports: Ports,
    item: ConfigObject,
    pods: Pods,
    settings: ServiceSettings,
) -> Endpoint:
    pod = pods.target(each.target_ref, item)
    node = each.node_name or ""
    endpoint = _endpoint(pod, address, ports, item, settings, node=node)
    return replace(
        endpoint,
        health=_health(each.conditions or Conditions()),
        hostname=each.hostname or "",
        node=endpoint.node or node,
        locality=endpoint.locality or (f"/{each.zone}" if each.zone else ""),
    )


def _of_subset(  # noqa: PLR0917
    each: EndpointAddress,
    ports: Ports,
    health: Health,
    item: ConfigObject,
    pods: Pods,
    settings: ServiceSettings,
) -> Endpoint:
    pod = pods.target(each.target_ref, item)
    endpoint = _endpoint(pod, each.ip, ports, item, settings, node=each.node_name or "")
    return replace(endpoint, health=health, hostname=each.hostname or "")


def _endpoint(
    pod: ConfigObject | None,
    address: str,
    ports: Ports,
    item: ConfigObject,
    settings: ServiceSettings,
    *,
    node: str,
) -> Endpoint:
    if pod is not None:
        endpoint = pod_endpoint(pod, address, settings, ports=ports)
        return replace(endpoint, has_named_ports_only=True)
    return Endpoint(
        address=address,
        ports=ports,
        has_named_ports_only=True,
        namespace=item.namespace,
        cluster=item.origin.cluster,
        network=settings.network_of_pod(address, cluster=item.origin.cluster),
        locality=settings.localities.get((item.origin.cluster, node), ""),
        node=node,
    )


def _health(conditions: Conditions) -> Health:
    """Return an endpoint's health by Kubernetes' rule: a condition that is unset counts as true."""
    if conditions.ready is not False:
        return Health.HEALTHY
    if not conditions.terminating:
        return Health.UNHEALTHY
    return Health.TERMINATING if conditions.serving is False else Health.DRAINING
