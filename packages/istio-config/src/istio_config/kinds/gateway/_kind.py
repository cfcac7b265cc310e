"""Gateway: the servers of routers, with their ports, hosts and TLS.

Source: Istio's API, networking/v1, and its validation.
"""

from collections.abc import Iterator
from typing import Annotated, TypeAlias

import msgspec

from istio_config.addresses import is_ip, socket_path
from istio_config.kinds.fields import Labels, PortNumber, SpecFields, Text
from istio_config.kinds.gateway._hosts import wrong_host
from istio_config.kinds.gateway._server_tls import (
    ServerTlsSettings,
    server_tls_mistakes,
    server_tls_warnings,
)
from istio_config.kinds.kind import Kind
from istio_config.kinds.metadata import Metadata
from istio_config.kinds.protocol import Protocol
from mesh_configfile import FieldPath
from mesh_configfile.shapes import Finding

ServerPortNumber: TypeAlias = Annotated[int, msgspec.Meta(ge=0, le=65535)]
"""Zero is for servers that are bound to a Unix socket."""


class ServerPort(SpecFields, frozen=True):
    """The port that clients connect to."""

    number: ServerPortNumber
    protocol: Text
    name: str = ""
    target_port: PortNumber | None = None


class Server(SpecFields, frozen=True):
    """A port of the routers, for some hosts."""

    port: ServerPort
    hosts: tuple[Text, ...] = ()
    bind: str = ""
    tls: ServerTlsSettings | None = None
    default_endpoint: str = ""
    name: str = ""


class GatewaySpec(SpecFields, frozen=True):
    """The servers of the routers that have these labels."""

    servers: tuple[Server, ...] = ()
    selector: Labels = msgspec.field(default_factory=dict)


_SECURE = (Protocol.HTTPS, Protocol.TLS)


def _mistakes(spec: GatewaySpec, _metadata: Metadata) -> Iterator[Finding]:
    """Yield everything for which a Gateway is refused; paths start below its spec."""
    if not spec.servers:
        yield ("servers",), "must have at least one server"
    for key, value in spec.selector.items():
        if not key or "*" in key or "*" in value:
            yield ("selector", key), "is a label: it must not be empty and has no wildcard"
    names: dict[str, int] = {}
    for index, server in enumerate(spec.servers):
        path: FieldPath = ("servers", index)
        for inner, message in _server_mistakes(server):
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


def _server_mistakes(server: Server) -> Iterator[Finding]:
    yield from _port_mistakes(server)
    yield from _bind_mistakes(server)
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
        for inner, message in server_tls_mistakes(tls):
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


def _port_mistakes(server: Server) -> Iterator[Finding]:
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


def _bind_mistakes(server: Server) -> Iterator[Finding]:
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


def _warnings(spec: GatewaySpec, _metadata: Metadata) -> Iterator[Finding]:
    """Yield what is accepted and probably not meant; paths start below the spec."""
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
            for inner, message in server_tls_warnings(tls):
                yield (*path, "tls", *inner), message


GATEWAY = Kind(
    name="Gateway",
    group="networking.istio.io",
    versions=("v1", "v1beta1", "v1alpha3"),
    spec=GatewaySpec,
    validate=_mistakes,
    warn=_warnings,
)
