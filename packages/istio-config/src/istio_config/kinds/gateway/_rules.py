"""Rules on a Gateway: which servers are refused, and what is told of those that are accepted."""

from collections.abc import Iterator

from istio_config.addresses import is_ip, socket_path
from istio_config.kinds.gateway._hosts import wrong_host
from istio_config.kinds.gateway._spec import GatewaySpec, Server, ServerTlsSettings
from istio_config.kinds.gateway._tls_rules import tls_mistakes, tls_warnings
from istio_config.kinds.metadata import Metadata
from istio_config.kinds.protocol import Protocol
from mesh_configfile import FieldPath
from mesh_configfile.shapes import Finding

_SECURE = (Protocol.HTTPS, Protocol.TLS)


def gateway_mistakes(spec: GatewaySpec, _metadata: Metadata) -> Iterator[Finding]:
    """Yield everything for which a Gateway is refused; paths start below its spec."""
    if not spec.servers:
        yield ("servers",), "must have at least one server"
    for key, value in spec.selector.items():
        if not key or "*" in key or "*" in value:
            yield ("selector", key), "is a label: it must not be empty and has no wildcard"
    names: dict[str, int] = {}
    for index, server in enumerate(spec.servers):
        path: FieldPath = ("servers", index)
        for inner, message in _server(server):
            yield path + inner, message
        first = names.setdefault(server.port.name, index)
        if server.port.name and first != index:
            yield (
                (*path, "port", "name"),
                (
                    f'"{server.port.name}" is the name of servers[{first}] too; routes of '
                    "servers are told apart by it"
                ),
            )


def _server(server: Server) -> Iterator[Finding]:
    yield from _port(server)
    yield from _bind(server)
    if not server.hosts:
        yield ("hosts",), 'must name at least one host; "*" is all'
    for index, host in enumerate(server.hosts):
        if (wrong := wrong_host(host)) is not None:
            yield ("hosts", index), wrong
    protocol, tls = Protocol.parse(server.port.protocol), server.tls
    if protocol in _SECURE:
        if tls is None:
            yield ("tls",), f"is missing: a server of protocol {protocol} needs tls with a mode"
            return
        for inner, message in tls_mistakes(tls):
            yield ("tls", *inner), message
    elif protocol is not None and tls is not None:
        if not protocol.is_http and tls != ServerTlsSettings():
            yield ("tls",), f"is for protocols HTTPS and TLS, found on a server of {protocol}"
        elif not tls.only_redirects and tls != ServerTlsSettings():
            yield (
                ("tls",),
                (
                    f"on a server of {protocol} only httpsRedirect is possible; to end TLS make "
                    "the protocol HTTPS"
                ),
            )


def _port(server: Server) -> Iterator[Finding]:
    port = server.port
    if not port.name:
        yield ("port", "name"), "is missing: give the port a name that no other server has"
    protocol = Protocol.parse(port.protocol)
    if protocol is None or protocol is Protocol.UDP:
        known = ", ".join(each for each in Protocol if each is not Protocol.UDP)
        yield ("port", "protocol"), f'unknown protocol "{port.protocol}"; known: {known}'
    if port.target_port is not None:
        yield (
            ("port", "targetPort"),
            "is for ServiceEntries: a router listens on the target port of its own service",
        )


def _bind(server: Server) -> Iterator[Finding]:
    path = socket_path(server.bind)
    number = server.port.number
    if path is not None:
        if not path.startswith(("/", "@")) or len(path) < 2:
            yield ("bind",), f'"{server.bind}" must be unix:// and an absolute path'
        if number:
            yield ("port", "number"), f"a Unix socket has no port: write 0 instead of {number}"
        return
    if server.bind and not is_ip(server.bind):
        yield ("bind",), f'"{server.bind}" is not an IP address or unix:///path'
    if not number:
        yield ("port", "number"), "expected a number from 1 to 65535, found 0"


def gateway_warnings(spec: GatewaySpec, _metadata: Metadata) -> Iterator[Finding]:
    """Yield what is accepted and hardly meant so; paths start below the spec."""
    for index, server in enumerate(spec.servers):
        path: FieldPath = ("servers", index)
        protocol, tls = Protocol.parse(server.port.protocol), server.tls
        if server.default_endpoint:
            yield (
                (*path, "defaultEndpoint"),
                "has no effect, as in Istio: bind a VirtualService to the gateway",
            )
        if len(set(server.hosts)) < len(server.hosts):
            yield (*path, "hosts"), "has a host twice"
        if tls is None or protocol is None:
            continue
        if tls.https_redirect and not protocol.is_http:
            yield (
                (*path, "tls", "httpsRedirect"),
                f"has no effect on a server of {protocol}: it is for plain HTTP",
            )
        if protocol in _SECURE:
            for inner, message in tls_warnings(tls):
                yield (*path, "tls", *inner), message
