"""What must hold between the fields of a spec, once each field has its right shape."""

import json
from collections.abc import Iterator

from mesh_configfile import DurationBoundsError, DurationError
from mesh_configfile.shapes import Finding
from mesh_discovery._addresses import (
    is_host,
    is_host_pattern,
    is_ip,
    is_network,
    socket_path,
    split_host_port,
)
from mesh_discovery.config.kinds._drain_duration import mesh_drain_time
from mesh_discovery.config.kinds._protocol import Protocol
from mesh_discovery.config.kinds._schema import (
    LogEncoding,
    MeshConfigSpec,
    PeerAuthenticationSpec,
    Resolution,
    ServiceEntrySpec,
    WorkloadEntrySpec,
)
from mesh_identity import InvalidSpiffeId, checked_segment, checked_trust_domain

Spec = ServiceEntrySpec | WorkloadEntrySpec | PeerAuthenticationSpec | MeshConfigSpec


def contradictions(spec: Spec) -> Iterator[Finding]:
    """Yield what does not fit together; paths start below `spec`."""
    match spec:
        case ServiceEntrySpec():
            yield from _service_entry(spec)
        case WorkloadEntrySpec():
            yield from _workload_entry(spec)
        case PeerAuthenticationSpec():
            yield from _peer_authentication(spec)
        case MeshConfigSpec():
            yield from _mesh_config(spec)


def _service_entry(spec: ServiceEntrySpec) -> Iterator[Finding]:
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
                f'unknown protocol "{port.protocol}"; known: {", ".join(Protocol)}',
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
        for path, message in _workload_entry(endpoint):
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


def _workload_entry(spec: WorkloadEntrySpec) -> Iterator[Finding]:
    yield from _workload_address(spec)
    if spec.service_account:
        try:
            checked_segment(spec.service_account, what="service account")
        except InvalidSpiffeId as error:
            yield ("serviceAccount",), str(error)


def _workload_address(spec: WorkloadEntrySpec) -> Iterator[Finding]:
    address = spec.address
    if not address:
        yield ("address",), "is missing: give the workload's IP address"
        return
    path = socket_path(address)
    if path is not None:
        if not path.startswith("/"):
            yield ("address",), f'"{address}" must be unix:// and an absolute path'
        if spec.ports:
            yield ("ports",), "a Unix socket has no ports"
    elif not is_ip(address) and not is_host(address):
        yield ("address",), f'"{address}" is not an IP address, a host name or unix:///path'


def _peer_authentication(spec: PeerAuthenticationSpec) -> Iterator[Finding]:
    for port in spec.port_level_mtls:
        if not (port.isascii() and port.isdigit() and 1 <= int(port) <= 65535):
            yield ("portLevelMtls", port), "is not a port; expected a number from 1 to 65535"
    if spec.port_level_mtls and (spec.selector is None or not spec.selector.match_labels):
        yield ("portLevelMtls",), "needs a selector with matchLabels beside it"


def _mesh_config(spec: MeshConfigSpec) -> Iterator[Finding]:
    domains = [(("trustDomain",), spec.trust_domain or "cluster.local")]
    domains += [
        (("trustDomainAliases", index), alias)  # type: ignore[misc]
        for index, alias in enumerate(spec.trust_domain_aliases)
    ]
    for path, domain in domains:
        try:
            checked_trust_domain(domain)
        except InvalidSpiffeId as error:
            yield path, str(error)
    if spec.connect_timeout < 0.001:
        yield ("connectTimeout",), "must be at least 1ms"
    if spec.dns_refresh_rate < 0.001:
        yield ("dnsRefreshRate",), "must be at least 1ms"
    if spec.access_log_format and spec.access_log_encoding is LogEncoding.JSON:
        try:
            is_object = isinstance(json.loads(spec.access_log_format), dict)
        except ValueError:
            is_object = False
        if not is_object:
            yield ("accessLogFormat",), "with accessLogEncoding JSON it must be a JSON object"
    address = spec.default_config.get("discoveryAddress", "localhost:15012")
    try:
        split_host_port(address if isinstance(address, str) else "")
    except ValueError:
        yield ("defaultConfig", "discoveryAddress"), "expected host:port"
    try:
        mesh_drain_time(spec.default_config)
    except DurationBoundsError as error:
        yield ("defaultConfig", "drainDuration"), str(error)
    except DurationError as error:
        yield ("defaultConfig", "drainDuration"), f"expected a duration such as 45s{error.hint}"
