"""Endpoints of a Kubernetes Service as its cluster publishes them: EndpointSlices or Endpoints."""

from collections.abc import Iterator, Sequence
from dataclasses import replace

from istio_config import ConfigObject
from istio_config.kinds.kubernetes import (
    AddressType,
    Conditions,
    EndpointAddress,
    EndpointPort,
    EndpointsFields,
    EndpointSliceFields,
    IpFamily,
    SliceEndpoint,
)
from mesh_model._services import Endpoint, Health
from mesh_model.kubernetes._cluster import Pods
from mesh_model.workloads._service_settings import ServiceSettings
from mesh_model.workloads._workload_endpoints import pod_endpoint

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
        locality=settings.localities.get(node, ""),
        node=node,
    )


def _health(conditions: Conditions) -> Health:
    """Return an endpoint's health by Kubernetes' rule: a condition that is unset counts as true."""
    if conditions.ready is not False:
        return Health.HEALTHY
    if not conditions.terminating:
        return Health.UNHEALTHY
    return Health.TERMINATING if conditions.serving is False else Health.DRAINING
