"""Builds the services of a ServiceEntry, from its endpoints or the workloads that it selects."""

from collections.abc import Iterator, Mapping
from dataclasses import replace

from istio_config import ConfigObject
from istio_config.addresses import is_host, is_ip, plain_address, socket_path
from istio_config.kinds.kubernetes import PodStatus
from istio_config.kinds.service_entry import Location, Resolution, ServiceEntrySpec
from mesh_model._services import Endpoint, Health, Port, Service, ServiceKey
from mesh_model.registry._auto_addresses import auto_addresses
from mesh_model.workloads._service_settings import ServiceSettings
from mesh_model.workloads._workload_endpoints import (
    entry_endpoint,
    is_reached,
    pod_endpoint,
    pod_health,
    workload_endpoint,
)
from mesh_model.workloads._workloads import Workloads

_BY_NAME = (Resolution.DNS, Resolution.DNS_ROUND_ROBIN)


def services_of_entry(  # noqa: PLR0917
    item: ConfigObject,
    spec: ServiceEntrySpec,
    entries: Workloads,
    pods: Workloads,
    settings: ServiceSettings,
    allocated: Mapping[ServiceKey, int],
) -> Iterator[Service]:
    """Yield the services of a ServiceEntry, one a host."""
    ports = tuple(
        Port(
            number=port.number,
            name=port.name,
            protocol=port.known_protocol,
            target=port.target_port or port.number,
            has_target=bool(port.target_port),
        )
        for port in spec.ports
    )
    selector = spec.workload_selector.labels if spec.workload_selector is not None else {}
    if spec.workload_selector is None:
        endpoints = tuple(
            endpoint
            for each in spec.endpoints
            if is_reached(
                endpoint := entry_endpoint(each, item.namespace, settings, workload=item.name),
                settings,
            )
        )
    else:
        endpoints = tuple(_selected(item, spec, selector, entries, pods, settings))
    if spec.resolution is Resolution.DNS_ROUND_ROBIN:
        endpoints = endpoints[:1]
    for host in dict.fromkeys(each.lower() for each in spec.hosts):
        offset = allocated.get((item.namespace, host)) if not spec.addresses else None
        export_to = settings.owners.exported(
            item.namespace,
            spec.export_to or settings.export_to,
            hosts=(host,),
            addresses=spec.addresses,
        )
        yield Service(
            host=host,
            namespace=item.namespace,
            name=item.name,
            labels=item.labels,
            selector=tuple(sorted(selector.items())),
            ports=ports,
            endpoints=endpoints or _named_by_host(host, item, spec),
            addresses=tuple(dict.fromkeys(map(plain_address, spec.addresses))),
            auto_addresses=auto_addresses(offset) if offset is not None else (),
            resolution=spec.resolution,
            external=spec.location is Location.MESH_EXTERNAL,
            export_to=export_to,
            subject_alt_names=spec.subject_alt_names,
            takes_any_address=settings.owners.is_at_home(item.namespace, export_to),
        )


def _named_by_host(host: str, item: ConfigObject, spec: ServiceEntrySpec) -> tuple[Endpoint, ...]:
    """Return the host itself as the endpoint, for a service that is resolved by DNS."""
    by_name = spec.resolution in _BY_NAME and spec.workload_selector is None
    if not by_name or host.startswith("*"):
        return ()
    return (Endpoint(address=host, ports=(), namespace=item.namespace),)


def _selected(  # noqa: PLR0917
    item: ConfigObject,
    spec: ServiceEntrySpec,
    selector: Mapping[str, str],
    entries: Workloads,
    pods: Workloads,
    settings: ServiceSettings,
) -> Iterator[Endpoint]:
    """Yield the workloads of the namespace that have the labels, pods before WorkloadEntries.

    A selector without labels selects none, as in Istio.
    """
    if not selector:
        return
    for pod in pods.selected(item.namespace, selector):
        if pod_health(pod) is Health.HEALTHY and isinstance(pod.status, PodStatus):
            yield pod_endpoint(pod, pod.status.addresses[0], settings)
    for entry in entries.selected(item.namespace, selector):
        endpoint = workload_endpoint(entry, settings)
        if endpoint is not None and _joins(endpoint, spec.resolution):
            yield endpoint


def _joins(endpoint: Endpoint, resolution: Resolution) -> bool:
    """Return whether a service of this resolution can reach an address of this form."""
    address = endpoint.address
    if not address or is_ip(address):
        return True
    if socket_path(address) is not None:
        return resolution is Resolution.STATIC
    return resolution in _BY_NAME and is_host(address)


def united(services: tuple[Service, ...]) -> Service:
    """Merge several services of one host and namespace, the oldest first.

    The oldest wins: its fields are those of the result. It gets the endpoints of all that have its
    resolution, and the ports of those that agree with it in labels, selector and exportTo as well.
    """
    first = services[0]
    ports = {port.number: port for port in first.ports}
    for each in services[1:]:
        if _rank(each) == _rank(first):
            ports |= {port.number: port for port in each.ports if port.number not in ports}
    endpoints = dict.fromkeys(
        _with_own_ports(endpoint, each)
        for each in services
        if each.resolution is first.resolution
        for endpoint in each.endpoints
    )
    kept = tuple(endpoints)
    if first.resolution is Resolution.DNS_ROUND_ROBIN:
        kept = kept[:1]
    return replace(
        first,
        ports=tuple(ports.values()),
        endpoints=kept,
        subject_alt_names=tuple(
            dict.fromkeys(name for each in services for name in each.subject_alt_names)
        ),
    )


def _rank(service: Service) -> tuple[object, ...]:
    return service.resolution, service.labels, service.selector, service.export_to


def _with_own_ports(endpoint: Endpoint, service: Service) -> Endpoint:
    """Return an endpoint that serves the ports of its own service alone."""
    ports = tuple((port.name, endpoint.port_for(port)) for port in service.ports)
    return replace(endpoint, ports=ports, has_named_ports_only=True)
