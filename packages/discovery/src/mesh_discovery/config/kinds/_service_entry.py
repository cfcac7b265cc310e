"""ServiceEntry: a service by its host names.

Source: Istio's API, networking/v1.
"""

from collections.abc import Iterator
from enum import StrEnum

import msgspec

from mesh_configfile.shapes import Finding
from mesh_discovery._addresses import is_host, is_host_pattern, is_ip, is_network, socket_path
from mesh_discovery.config.kinds._fields import Labels, PortNumber, SpecFields, Text
from mesh_discovery.config.kinds._kind import Kind
from mesh_discovery.config.kinds._metadata import Metadata
from mesh_discovery.config.kinds._protocol import PROTOCOL_NAMES, Protocol
from mesh_discovery.config.kinds._workload_entry import WorkloadEntrySpec, validate_workload_entry


class Location(StrEnum):
    """Whether a service is part of the mesh."""

    MESH_EXTERNAL = "MESH_EXTERNAL"
    MESH_INTERNAL = "MESH_INTERNAL"


class Resolution(StrEnum):
    """How a service's name becomes addresses."""

    NONE = "NONE"
    STATIC = "STATIC"
    DNS = "DNS"
    DNS_ROUND_ROBIN = "DNS_ROUND_ROBIN"
    DYNAMIC_DNS = "DYNAMIC_DNS"


class ServicePort(SpecFields, frozen=True):
    """A port that clients name."""

    number: PortNumber
    name: Text
    protocol: str = ""
    target_port: PortNumber | None = None


class Selector(SpecFields, frozen=True):
    """Workloads by their labels (ServiceEntry's workloadSelector)."""

    labels: Labels = msgspec.field(default_factory=dict)


class ServiceEntrySpec(SpecFields, frozen=True):
    """A service by its host names."""

    hosts: tuple[Text, ...]
    addresses: tuple[Text, ...] = ()
    ports: tuple[ServicePort, ...] = ()
    location: Location = Location.MESH_EXTERNAL
    resolution: Resolution = Resolution.NONE
    endpoints: tuple[WorkloadEntrySpec, ...] = ()
    workload_selector: Selector | None = None
    export_to: tuple[Text, ...] = ()
    subject_alt_names: tuple[Text, ...] = ()


def _validate(spec: ServiceEntrySpec, _metadata: Metadata) -> Iterator[Finding]:
    if not spec.hosts:
        yield ("hosts",), "must name at least one host"
    for index, host in enumerate(spec.hosts):
        if not is_host_pattern(host):
            yield (
                ("hosts", index),
                f'"{host}" is not a host name; write it like reviews.example.com or *.example.com',
            )
        elif host.startswith("*.") and spec.resolution in _BY_NAME and not spec.endpoints:
            yield (
                ("hosts", index),
                (
                    f"a wildcard host can't be looked up by resolution {spec.resolution.value}; "
                    "use NONE or give endpoints"
                ),
            )
    for index, address in enumerate(spec.addresses):
        if not is_ip(address) and not is_network(address):
            yield ("addresses", index), f'"{address}" is not an IP address or a range in CIDR form'
    yield from _ports(spec)
    yield from _export_to(spec)
    yield from _endpoints(spec)


_BY_NAME = (Resolution.DNS, Resolution.DNS_ROUND_ROBIN)


def _ports(spec: ServiceEntrySpec) -> Iterator[Finding]:
    numbers: set[int] = set()
    names: set[str] = set()
    for index, port in enumerate(spec.ports):
        if port.number in numbers:
            yield ("ports", index, "number"), f"the port {port.number} is given twice"
        if port.name in names:
            yield ("ports", index, "name"), f'the name "{port.name}" is given twice'
        if port.protocol and Protocol.parse(port.protocol) is None:
            yield (
                ("ports", index, "protocol"),
                f'unknown protocol "{port.protocol}"; known: {", ".join(PROTOCOL_NAMES)}',
            )
        numbers.add(port.number)
        names.add(port.name)


def _export_to(spec: ServiceEntrySpec) -> Iterator[Finding]:
    for index, namespace in enumerate(spec.export_to):
        if namespace not in (".", "*", "~") and not is_host(namespace):
            yield (
                ("exportTo", index),
                (
                    f'"{namespace}" is not a namespace; write a name, "." for this one, "*" for '
                    'all or "~" for none'
                ),
            )


def _endpoints(spec: ServiceEntrySpec) -> Iterator[Finding]:
    if spec.endpoints and spec.workload_selector is not None:
        yield ("workloadSelector",), "can't stand beside endpoints: keep one of the two"
    if spec.resolution is Resolution.NONE:
        if spec.endpoints:
            yield ("endpoints",), "resolution NONE takes no endpoints; use STATIC or DNS"
        if spec.workload_selector is not None:
            yield ("workloadSelector",), "resolution NONE takes no workloads; use STATIC or DNS"
    if spec.workload_selector is not None and not spec.workload_selector.labels:
        yield ("workloadSelector", "labels"), "must name at least one label"
    names = {port.name for port in spec.ports}
    for index, endpoint in enumerate(spec.endpoints):
        place = ("endpoints", index)
        for path, message in validate_workload_entry(endpoint):
            yield place + path, message
        path_or_ip = is_ip(endpoint.address) or socket_path(endpoint.address) is not None
        if spec.resolution is Resolution.STATIC and is_host(endpoint.address) and not path_or_ip:
            yield (
                (*place, "address"),
                (
                    f'resolution STATIC takes IP addresses, found "{endpoint.address}"; '
                    "for host names use resolution DNS"
                ),
            )
        for port in endpoint.ports:
            if port not in names:
                yield (
                    (*place, "ports", port),
                    f"the service has no port of this name; it has {', '.join(sorted(names))}",
                )


SERVICE_ENTRY = Kind(
    name="ServiceEntry",
    group="networking.istio.io",
    versions=("v1", "v1beta1", "v1alpha3"),
    spec=ServiceEntrySpec,
    validate=_validate,
    unsupported=((("resolution",), "DYNAMIC_DNS"),),
)
