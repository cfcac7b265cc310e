"""Mistakes and warnings of a Sidecar."""

from collections.abc import Iterator

from istio_config.addresses import UNIX, is_host, is_ip, socket_path
from istio_config.kinds.checks import is_dns_label, label_mistakes, port_name_warning
from istio_config.kinds.destination_rule import connection_pool_mistakes
from istio_config.kinds.metadata import Metadata
from istio_config.kinds.protocol import PROTOCOL_NAMES, Protocol
from istio_config.kinds.sidecar._default_endpoint import (
    InstanceEndpoint,
    LoopbackEndpoint,
    parse_default_endpoint,
)
from istio_config.kinds.sidecar._egress_hosts import egress_host_mistake
from istio_config.kinds.sidecar._ingress_tls import ingress_tls_mistakes
from istio_config.kinds.sidecar._spec import (
    HTTP_PROXY,
    CaptureMode,
    EgressListener,
    IngressListener,
    SidecarPort,
    SidecarSpec,
    SidecarTrafficMode,
    SidecarTrafficPolicy,
)
from istio_config.proxy_ports import PROXY_PORTS
from mesh_configfile import FieldPath
from mesh_configfile.shapes import Finding


def mistakes(spec: SidecarSpec, metadata: Metadata) -> Iterator[Finding]:
    """Yield what is wrong with a Sidecar; paths start below its spec."""
    del metadata
    if (
        not spec.ingress
        and not spec.egress
        and spec.outbound_traffic_policy is None
        and spec.inbound_connection_pool is None
    ):
        yield (
            (),
            "says nothing; give egress, ingress, outboundTrafficPolicy or inboundConnectionPool",
        )
    if spec.workload_selector is not None:
        yield from label_mistakes(spec.workload_selector.labels, ("workloadSelector", "labels"))
    yield from _ingress_ports(spec)
    for index, ingress in enumerate(spec.ingress):
        yield from _below(("ingress", index), _ingress(ingress))
    yield from _egress_order(spec)
    for index, egress in enumerate(spec.egress):
        yield from _below(("egress", index), _egress(egress))
    if spec.inbound_connection_pool is not None:
        yield from _below(
            ("inboundConnectionPool",), connection_pool_mistakes(spec.inbound_connection_pool)
        )
    if spec.outbound_traffic_policy is not None:
        yield from _below(("outboundTrafficPolicy",), _policy(spec.outbound_traffic_policy))


def _below(path: FieldPath, findings: Iterator[Finding]) -> Iterator[Finding]:
    for inner, message in findings:
        yield path + inner, message


def _ingress_ports(spec: SidecarSpec) -> Iterator[Finding]:
    seen: set[int] = set()
    for index, each in enumerate(spec.ingress):
        if each.port is None or not each.port.number:
            continue
        if each.port.number in seen:
            yield (
                ("ingress", index, "port", "number"),
                f"another ingress listener has the port {each.port.number}",
            )
        seen.add(each.port.number)


def _ingress(ingress: IngressListener) -> Iterator[Finding]:
    if ingress.port is None:
        yield (), "the field port is missing"
    else:
        if not ingress.port.number:
            yield ("port", "number"), "expected a number from 1 to 65535, found 0"
        if ingress.port.is_http_proxy:
            yield ("port", "protocol"), f"{HTTP_PROXY} is for egress listeners"
        yield from _below(("port",), _port(ingress.port))
    if ingress.bind and not is_ip(ingress.bind):
        yield ("bind",), f'"{ingress.bind}" is not an IP address'
    if ingress.default_endpoint and parse_default_endpoint(ingress.default_endpoint) is None:
        yield (
            ("defaultEndpoint",),
            (
                f'"{ingress.default_endpoint}" must be unix:///path, or a port of 127.0.0.1, '
                "[::1], 0.0.0.0 or [::], such as 127.0.0.1:8080"
            ),
        )
    yield from _own_pages(ingress)
    if ingress.connection_pool is not None:
        yield from _below(("connectionPool",), connection_pool_mistakes(ingress.connection_pool))
    if ingress.tls is not None:
        yield from _below(("tls",), ingress_tls_mistakes(ingress.tls, ingress.port))


def _own_pages(ingress: IngressListener) -> Iterator[Finding]:
    """Yield that traffic would be led to the proxy's own pages, or its agent's."""
    match parse_default_endpoint(ingress.default_endpoint):
        case LoopbackEndpoint(port=port) | InstanceEndpoint(port=port) if port in PROXY_PORTS:
            yield (
                ("defaultEndpoint",),
                (
                    f'"{ingress.default_endpoint}" is {PROXY_PORTS[port]}, which answers the '
                    "machine itself only; give the port of the workload"
                ),
            )


def _port(port: SidecarPort) -> Iterator[Finding]:
    if port.name and not is_dns_label(port.name):
        yield (
            ("name",),
            f'"{port.name}" can\'t name a port: up to 63 letters, digits and inner hyphens can',
        )
    if port.protocol and not port.is_http_proxy and Protocol.parse(port.protocol) is None:
        known = ", ".join((*PROTOCOL_NAMES, HTTP_PROXY))
        yield ("protocol",), f'unknown protocol "{port.protocol}"; known: {known}'


def _egress_order(spec: SidecarSpec) -> Iterator[Finding]:
    without_port = [index for index, each in enumerate(spec.egress) if each.port is None]
    for index in without_port[:-1]:
        yield (
            ("egress", index),
            "only the last listener can be without a port: it has the hosts of all other ports",
        )
    if without_port and without_port[-1] != len(spec.egress) - 1:
        yield ("egress", without_port[-1]), "a listener without a port must be the last"
    paths: set[str] = set()
    for index, each in enumerate(spec.egress):
        path = socket_path(each.bind)
        if path is not None and path in paths:
            yield ("egress", index, "bind"), f"another listener is bound to {each.bind}"
        paths.add(path or "")


def _egress(egress: EgressListener) -> Iterator[Finding]:
    if not egress.hosts:
        yield ("hosts",), "must name at least one host, such as ./* or istio-system/*"
    for index, host in enumerate(egress.hosts):
        if (wrong := egress_host_mistake(host)) is not None:
            yield ("hosts", index), wrong
    if egress.port is None:
        if egress.bind:
            yield ("bind",), "needs a port beside it"
        if egress.capture_mode is not CaptureMode.DEFAULT:
            yield ("captureMode",), "needs a port beside it"
        return
    yield from _below(("port",), _port(egress.port))
    yield from _place(egress, egress.port)


def _place(egress: EgressListener, port: SidecarPort) -> Iterator[Finding]:
    path = socket_path(egress.bind)
    if path is None:
        if not port.number:
            yield ("port", "number"), f"may be 0 only where bind is {UNIX}/path"
        if egress.bind and not is_ip(egress.bind):
            yield ("bind",), f'"{egress.bind}" is not an IP address or {UNIX}/path'
        return
    if not path.startswith(("/", "@")):
        yield ("bind",), f'"{egress.bind}" must be {UNIX} and an absolute path'
    if port.number:
        yield ("port", "number"), "must be 0 for a Unix socket"
    if egress.capture_mode is CaptureMode.IPTABLES:
        yield ("captureMode",), "IPTABLES redirects nothing to a Unix socket"


def _policy(policy: SidecarTrafficPolicy) -> Iterator[Finding]:
    if policy.mode is SidecarTrafficMode.ALLOW_ANY_DYNAMIC_DNS:
        yield ("mode",), "ALLOW_ANY_DYNAMIC_DNS is for mesh config; use ALLOW_ANY here"
    proxy = policy.egress_proxy
    if proxy is None:
        return
    if policy.mode is not SidecarTrafficMode.ALLOW_ANY:
        yield ("egressProxy",), "needs mode ALLOW_ANY beside it"
    if proxy.host.startswith("*") or not is_host(proxy.host):
        yield ("egressProxy", "host"), f'"{proxy.host}" is not a host name'
    if proxy.port is None or proxy.port.number is None:
        yield ("egressProxy",), "the field port.number is missing"
    if proxy.subset and not is_dns_label(proxy.subset):
        yield ("egressProxy", "subset"), f'"{proxy.subset}" can\'t name a subset'


def warnings(spec: SidecarSpec, metadata: Metadata) -> Iterator[Finding]:
    """Yield what is accepted in a Sidecar and hardly meant so."""
    del metadata
    if spec.workload_selector is not None and not spec.workload_selector.labels:
        yield ("workloadSelector",), "has no labels: it selects every workload of the namespace"
    yield from _same_routes(spec)
    for index, egress in enumerate(spec.egress):
        yield from _below(("egress", index), _egress_warnings(egress))
    for index, ingress in enumerate(spec.ingress):
        yield from _below(("ingress", index), _ingress_warnings(ingress))


def _same_routes(spec: SidecarSpec) -> Iterator[Finding]:
    first: dict[int, int] = {}
    for index, each in enumerate(spec.egress):
        if each.port is None or not each.port.number or not each.port.known_protocol.is_http:
            continue
        known = first.setdefault(each.port.number, index)
        if known != index:
            yield (
                ("egress", index, "port", "number"),
                (
                    f"requests to the port {each.port.number} are routed by the hosts of "
                    f"egress[{known}], which comes first, and not by those here; give one of the "
                    "two another port"
                ),
            )


def _egress_warnings(egress: EgressListener) -> Iterator[Finding]:
    seen: set[str] = set()
    for place, host in enumerate(egress.hosts):
        if host in seen:
            yield ("hosts", place), f'"{host}" is there already'
        elif "*/*" in egress.hosts and host != "*/*" and not host.startswith("~"):
            yield ("hosts", place), '"*/*" has every host already'
        seen.add(host)
    if egress.port is None:
        return
    yield from _port_warnings(egress.port)
    if egress.port.target_port is not None:
        yield ("port", "targetPort"), "is deprecated and has no effect"


def _ingress_warnings(ingress: IngressListener) -> Iterator[Finding]:
    pool, port = ingress.connection_pool, ingress.port
    if ingress.tls is not None:
        yield (
            ("tls",),
            "has no effect, as in Istio unless switched on: the application ends this TLS",
        )
    if port is None:
        return
    yield from _port_warnings(port)
    if port.target_port is not None:
        yield ("port", "targetPort"), "is deprecated and has no effect; use defaultEndpoint"
    is_http = port.known_protocol.is_http or port.known_protocol is Protocol.AUTO
    if pool is not None and pool.http is not None and not is_http:
        yield (
            ("connectionPool", "http"),
            f"has no effect on the port {port.number}, which is not HTTP",
        )


def _port_warnings(port: SidecarPort) -> Iterator[Finding]:
    undeclared = port_name_warning(port.protocol, port.name)
    if undeclared is not None:
        yield ("port", "name"), undeclared
