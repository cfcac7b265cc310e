"""ServiceEntry: a service by its host names.

Source: Istio's API, networking/v1, and its validation.
"""

from collections.abc import Iterator
from enum import StrEnum

import msgspec

from istio_config.addresses import is_host, is_ip, is_network, socket_path
from istio_config.kinds.checks import (
    export_to_mistakes,
    is_dns_label,
    is_wildcard_host,
    port_name_warning,
    selector_mistakes,
)
from istio_config.kinds.fields import Labels, PortNumber, SpecFields, Text
from istio_config.kinds.kind import Coded, Kind
from istio_config.kinds.metadata import Metadata
from istio_config.kinds.protocol import PROTOCOL_NAMES, Protocol
from istio_config.kinds.workload_entry import (
    WorkloadEntrySpec,
    workload_entry_mistakes,
    workload_entry_warnings,
)
from istio_config.proxy_ports import proxy_port_warning
from mesh_configfile.shapes import Finding


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

    @property
    def known_protocol(self) -> Protocol:
        """The protocol that it declares; its name does not count, as in Istio."""
        return Protocol.declared(self.protocol)


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

    @property
    def is_by_name(self) -> bool:
        """Whether its endpoints are looked up by DNS."""
        return self.resolution in (Resolution.DNS, Resolution.DNS_ROUND_ROBIN)


_BY_REQUEST = (Protocol.HTTP, Protocol.HTTP2, Protocol.GRPC, Protocol.TLS)
"""The protocols whose requests say which host they are for, as DYNAMIC_DNS needs it."""
_WAYPOINT_LABEL = "istio.io/use-waypoint"
_NO_ADDRESS_LABEL = "networking.istio.io/enable-autoallocate-ip"


def _mistakes(spec: ServiceEntrySpec, metadata: Metadata) -> Iterator[Finding]:
    """Yield what is wrong with a ServiceEntry; paths start below its spec."""
    yield from _host_mistakes(spec)
    yield from _address_mistakes(spec)
    yield from _port_mistakes(spec)
    yield from export_to_mistakes(spec.export_to, metadata.namespace)
    yield from _workload_mistakes(spec)
    yield from _endpoint_mistakes(spec)
    if spec.resolution is Resolution.DYNAMIC_DNS:
        yield from _dynamic_dns_mistakes(spec, metadata)


def _host_mistakes(spec: ServiceEntrySpec) -> Iterator[Finding]:
    if not spec.hosts:
        yield ("hosts",), "must name at least one host"
    for index, host in enumerate(spec.hosts):
        if host == "*" or not is_wildcard_host(host):
            yield (
                ("hosts", index),
                f'"{host}" is not a host name; write it like reviews.example.com or *.example.com',
            )
        elif host.startswith("*") and spec.is_by_name and not spec.endpoints:
            yield (
                ("hosts", index),
                (
                    f"a wildcard host can't be looked up by resolution {spec.resolution.value}; "
                    "use NONE or give endpoints"
                ),
            )


def _address_mistakes(spec: ServiceEntrySpec) -> Iterator[Finding]:
    for index, address in enumerate(spec.addresses):
        if is_ip(address):
            continue
        if not is_network(address):
            yield ("addresses", index), f'"{address}" is not an IP address or a range in CIDR form'
        elif spec.is_by_name:
            yield (
                ("addresses", index),
                (
                    f'"{address}" is a range, which resolution {spec.resolution.value} can\'t '
                    "serve; use NONE or STATIC, or give single addresses"
                ),
            )


def _port_mistakes(spec: ServiceEntrySpec) -> Iterator[Finding]:
    numbers: set[int] = set()
    names: set[str] = set()
    for index, port in enumerate(spec.ports):
        if port.number in numbers:
            yield ("ports", index, "number"), f"the port {port.number} is given twice"
        if port.name in names:
            yield ("ports", index, "name"), f'the name "{port.name}" is given twice'
        if not is_dns_label(port.name.lower()):
            yield (
                ("ports", index, "name"),
                f'"{port.name}" is not the name of a port; it has a-z 0-9 and "-" between them',
            )
        if port.protocol and Protocol.parse(port.protocol) is None:
            yield (
                ("ports", index, "protocol"),
                f'unknown protocol "{port.protocol}"; known: {", ".join(PROTOCOL_NAMES)}',
            )
        elif len(spec.hosts) > 1 and spec.resolution is not Resolution.NONE:
            protocol = port.known_protocol
            if not protocol.is_http and not protocol.is_tls:
                yield (
                    ("ports", index),
                    (
                        "several hosts share this port, and its protocol does not say which one a "
                        "connection is for; make a ServiceEntry of each host, or give the port's "
                        "protocol if it is HTTP or TLS"
                    ),
                )
        numbers.add(port.number)
        names.add(port.name)


def _workload_mistakes(spec: ServiceEntrySpec) -> Iterator[Finding]:
    selector = spec.workload_selector
    if selector is None:
        return
    if spec.endpoints:
        yield ("workloadSelector",), "can't stand beside endpoints: keep one of the two"
    yield from selector_mistakes(selector.labels, ("workloadSelector", "labels"))


def _endpoint_mistakes(spec: ServiceEntrySpec) -> Iterator[Finding]:
    if spec.endpoints and spec.resolution is Resolution.NONE:
        yield ("endpoints",), "resolution NONE takes no endpoints; use STATIC or DNS"
    if len(spec.endpoints) > 1 and spec.resolution is Resolution.DNS_ROUND_ROBIN:
        yield (
            ("endpoints",),
            f"resolution DNS_ROUND_ROBIN takes one endpoint, found {len(spec.endpoints)}; use DNS",
        )
    names = {port.name for port in spec.ports}
    for index, endpoint in enumerate(spec.endpoints):
        here = ("endpoints", index)
        for path, message in workload_entry_mistakes(endpoint):
            yield here + path, message
        if (wrong := _address_mistake(spec, endpoint.address)) is not None:
            yield (*here, "address"), wrong
        for port in endpoint.ports:
            if port not in names:
                yield (
                    (*here, "ports", port),
                    f"the service has no port of this name; it has {', '.join(sorted(names))}",
                )


def _address_mistake(spec: ServiceEntrySpec, address: str) -> str | None:
    """Return why a valid address does not fit the resolution or the ports, or None."""
    if socket_path(address) is not None:
        if spec.is_by_name:
            return (
                f"resolution {spec.resolution.value} takes host names and IP addresses, found "
                f'"{address}"; for sockets use resolution STATIC'
            )
        if len(spec.ports) > 1:
            return "a Unix socket serves one port, and the service has several; give it one"
    elif spec.resolution is Resolution.STATIC and is_host(address) and not is_ip(address):
        return (
            f'resolution STATIC takes IP addresses, found "{address}"; for host names use '
            "resolution DNS"
        )
    return None


def _dynamic_dns_mistakes(spec: ServiceEntrySpec, metadata: Metadata) -> Iterator[Finding]:
    if spec.location is Location.MESH_INTERNAL and _WAYPOINT_LABEL in metadata.labels:
        yield (
            ("location",),
            f"MESH_INTERNAL with resolution DYNAMIC_DNS can't have the label {_WAYPOINT_LABEL}",
        )
    for index, host in enumerate(spec.hosts):
        if not host.startswith("*"):
            yield (
                ("hosts", index),
                f'resolution DYNAMIC_DNS is for wildcard hosts, found "{host}"; use DNS',
            )
    if spec.addresses:
        yield ("addresses",), "resolution DYNAMIC_DNS takes no addresses; leave them out"
    if spec.endpoints or spec.workload_selector is not None:
        field = "endpoints" if spec.endpoints else "workloadSelector"
        yield (field,), "resolution DYNAMIC_DNS finds its endpoints by name; leave this out"
    for index, port in enumerate(spec.ports):
        if port.known_protocol not in _BY_REQUEST:
            yield (
                ("ports", index),
                (
                    "resolution DYNAMIC_DNS needs requests that say their host: the protocol must "
                    f"be one of {', '.join(_BY_REQUEST)}"
                ),
            )


def _warnings(spec: ServiceEntrySpec, metadata: Metadata) -> Iterator[Finding | Coded]:
    """Yield what is accepted and probably not meant; paths start below the spec."""
    for index, host in enumerate(spec.hosts):
        if host.startswith("*") and not host.startswith("*."):
            yield (
                ("hosts", index),
                (
                    f'"{host}" has every host that ends in "{host[1:]}"; hosts below a domain are '
                    '"*." and its name'
                ),
            )
    if spec.workload_selector is not None and not spec.workload_selector.labels:
        yield ("workloadSelector",), "has no labels: it selects no workload"
    elif spec.resolution is Resolution.NONE and spec.workload_selector is not None:
        yield (
            ("workloadSelector",),
            "resolution NONE leads to where a connection was going: no workload is looked for",
        )
    for index, port in enumerate(spec.ports):
        undeclared = port_name_warning(port.protocol, port.name, elsewhere=", elsewhere it is TCP")
        if undeclared is not None:
            yield ("ports", index, "name"), undeclared
        field = "targetPort" if port.target_port is not None else "number"
        if (warning := proxy_port_warning(port.target_port or port.number)) is not None:
            yield ("ports", index, field), warning
        if _without_address(spec, metadata) and not _says_its_host(port.known_protocol):
            yield (
                ("ports", index),
                (
                    f"the service has no address, so port {port.number} of every address leads "
                    "to it unless another service comes first; give it addresses"
                ),
                "IST0134",
            )
    for index, endpoint in enumerate(spec.endpoints):
        for path, message in workload_entry_warnings(endpoint):
            yield ("endpoints", index, *path), message


def _without_address(spec: ServiceEntrySpec, metadata: Metadata) -> bool:
    """Return whether a service has no address, and gets none allocated."""
    if spec.addresses or spec.resolution is Resolution.DYNAMIC_DNS:
        return False
    return (
        spec.resolution is Resolution.NONE
        or metadata.labels.get(_NO_ADDRESS_LABEL) == "false"
        or any(host.startswith("*") for host in spec.hosts)
    )


def _says_its_host(protocol: Protocol) -> bool:
    return protocol.is_http or protocol.is_tls or protocol is Protocol.UDP


SERVICE_ENTRY = Kind(
    name="ServiceEntry",
    group="networking.istio.io",
    versions=("v1", "v1beta1", "v1alpha3"),
    spec=ServiceEntrySpec,
    validate=_mistakes,
    warn=_warnings,
)
