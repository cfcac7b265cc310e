"""The mistakes in a ServiceEntry.

Source: Istio's API reference and its validation.
"""

from collections.abc import Iterator

from istio_config.addresses import is_host, is_ip, is_network, socket_path
from istio_config.kinds.checks import (
    export_to_mistakes,
    is_dns_label,
    is_wildcard_host,
    selector_mistakes,
)
from istio_config.kinds.metadata import Metadata
from istio_config.kinds.protocol import PROTOCOL_NAMES, Protocol
from istio_config.kinds.service_entry._spec import Resolution, ServiceEntrySpec
from istio_config.kinds.workload_entry import validate_workload_entry
from mesh_configfile.shapes import Finding

_BY_REQUEST = (Protocol.HTTP, Protocol.HTTP2, Protocol.GRPC, Protocol.TLS)
"""The protocols whose requests say which host they are for, as DYNAMIC_DNS needs it."""


def mistakes(spec: ServiceEntrySpec, metadata: Metadata) -> Iterator[Finding]:
    """Yield the mistakes in a ServiceEntry."""
    yield from _hosts(spec)
    yield from _addresses(spec)
    yield from _ports(spec)
    yield from export_to_mistakes(spec.export_to, metadata.namespace)
    yield from _workloads(spec)
    yield from _endpoints(spec)
    if spec.resolution is Resolution.DYNAMIC_DNS:
        yield from _dynamic(spec)


def _hosts(spec: ServiceEntrySpec) -> Iterator[Finding]:
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


def _addresses(spec: ServiceEntrySpec) -> Iterator[Finding]:
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


def _ports(spec: ServiceEntrySpec) -> Iterator[Finding]:
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


def _workloads(spec: ServiceEntrySpec) -> Iterator[Finding]:
    selector = spec.workload_selector
    if selector is None:
        return
    if spec.endpoints:
        yield ("workloadSelector",), "can't stand beside endpoints: keep one of the two"
    if not selector.labels:
        yield ("workloadSelector", "labels"), "must name at least one label"
    yield from selector_mistakes(selector.labels, ("workloadSelector", "labels"))


def _endpoints(spec: ServiceEntrySpec) -> Iterator[Finding]:
    if spec.endpoints and spec.resolution is Resolution.NONE:
        yield ("endpoints",), "resolution NONE takes no endpoints; use STATIC or DNS"
    if len(spec.endpoints) > 1 and spec.resolution is Resolution.DNS_ROUND_ROBIN:
        yield (
            ("endpoints",),
            f"resolution DNS_ROUND_ROBIN takes one endpoint, found {len(spec.endpoints)}; use DNS",
        )
    names = {port.name for port in spec.ports}
    for index, endpoint in enumerate(spec.endpoints):
        place = ("endpoints", index)
        for path, message in validate_workload_entry(endpoint):
            yield place + path, message
        if (wrong := _unlike(spec, endpoint.address)) is not None:
            yield (*place, "address"), wrong
        for port in endpoint.ports:
            if port not in names:
                yield (
                    (*place, "ports", port),
                    f"the service has no port of this name; it has {', '.join(sorted(names))}",
                )


def _unlike(spec: ServiceEntrySpec, address: str) -> str | None:
    """Return why a well-formed address does not go with the resolution, or with the ports."""
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


def _dynamic(spec: ServiceEntrySpec) -> Iterator[Finding]:
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
