"""Ingress listeners: the ports at which a workload is reached through its proxy.

Source: Istio's API, networking/v1, and its validation.
"""

from collections.abc import Iterator
from dataclasses import dataclass

from istio_config.addresses import UNIX, is_ip, split_host_port
from istio_config.kinds.checks import below
from istio_config.kinds.destination_rule import ConnectionPool, connection_pool_mistakes
from istio_config.kinds.fields import SpecFields
from istio_config.kinds.gateway import ServerTlsSettings, TlsMode, server_tls_mistakes
from istio_config.kinds.protocol import Protocol
from istio_config.kinds.sidecar._ports import (
    HTTP_PROXY,
    CaptureMode,
    SidecarPort,
    port_mistakes,
    port_warnings,
)
from istio_config.proxy_ports import PROXY_PORTS
from mesh_configfile.shapes import Finding

_LOOPBACK = ("127.0.0.1", "::1")
_OF_INSTANCE = ("0.0.0.0", "::")  # noqa: S104 - compared, not bound


@dataclass(frozen=True, slots=True, kw_only=True)
class LoopbackEndpoint:
    """A port of the loopback address."""

    address: str
    port: int


@dataclass(frozen=True, slots=True, kw_only=True)
class InstanceEndpoint:
    """A port of the address by which other machines know the workload."""

    port: int


@dataclass(frozen=True, slots=True, kw_only=True)
class SocketEndpoint:
    """A Unix socket."""

    path: str


@dataclass(frozen=True, slots=True, kw_only=True)
class OriginalEndpoint:
    """Where the connection was going, as without any `defaultEndpoint`: Istio's `:8080`.

    Its port has no effect there either.
    """

    port: int


DefaultEndpoint = LoopbackEndpoint | InstanceEndpoint | SocketEndpoint | OriginalEndpoint


def parse_default_endpoint(text: str) -> DefaultEndpoint | None:
    """Read a `defaultEndpoint`, where the workload itself listens; None if it is malformed."""
    if text.startswith(UNIX):
        path = text.removeprefix(UNIX)
        # Istio's `unix://@name` is an abstract socket.
        return SocketEndpoint(path=path) if path.startswith(("/", "@")) and path[1:] else None
    try:
        address, port = split_host_port(text)
    except ValueError:
        return None
    if not port:
        return None
    if not address:
        return OriginalEndpoint(port=port)
    if address in _LOOPBACK:
        return LoopbackEndpoint(address=address, port=port)
    return InstanceEndpoint(port=port) if address in _OF_INSTANCE else None


class IngressListener(SpecFields, frozen=True):
    """A port at which a workload is reached through its proxy."""

    port: SidecarPort | None = None
    bind: str = ""
    capture_mode: CaptureMode = CaptureMode.DEFAULT
    default_endpoint: str = ""
    """The address where the workload itself listens (`parse_default_endpoint`)."""
    tls: ServerTlsSettings | None = None
    connection_pool: ConnectionPool | None = None


_GATEWAY_MODES = (TlsMode.ISTIO_MUTUAL, TlsMode.AUTO_PASSTHROUGH)


def ingress_mistakes(ingress: IngressListener) -> Iterator[Finding]:
    """Yield what is wrong with an ingress listener; paths start below it."""
    if ingress.port is None:
        yield (), "the field port is missing"
    else:
        if not ingress.port.number:
            yield ("port", "number"), "expected a number from 1 to 65535, found 0"
        if ingress.port.is_http_proxy:
            yield ("port", "protocol"), f"{HTTP_PROXY} is for egress listeners"
        yield from below(("port",), port_mistakes(ingress.port))
    if ingress.bind and not is_ip(ingress.bind):
        yield ("bind",), f'"{ingress.bind}" is not an IP address'
    if ingress.default_endpoint and parse_default_endpoint(ingress.default_endpoint) is None:
        yield (
            ("defaultEndpoint",),
            (
                f'"{ingress.default_endpoint}" must be unix:///path, or a port of 127.0.0.1, '
                "[::1], 0.0.0.0 or [::], such as 127.0.0.1:8080, or :8080"
            ),
        )
    yield from _own_page_mistakes(ingress)
    if ingress.connection_pool is not None:
        yield from below(("connectionPool",), connection_pool_mistakes(ingress.connection_pool))
    if ingress.tls is not None:
        yield from below(("tls",), _tls_mistakes(ingress.tls, ingress.port))


def _own_page_mistakes(ingress: IngressListener) -> Iterator[Finding]:
    """Yield that traffic would reach the proxy's admin pages, or its agent's."""
    match parse_default_endpoint(ingress.default_endpoint):
        case LoopbackEndpoint(port=port) | InstanceEndpoint(port=port) if port in PROXY_PORTS:
            yield (
                ("defaultEndpoint",),
                (
                    f'"{ingress.default_endpoint}" is {PROXY_PORTS[port]}, which answers the '
                    "machine itself only; give the port of the workload"
                ),
            )


def _tls_mistakes(tls: ServerTlsSettings, port: SidecarPort | None) -> Iterator[Finding]:
    """Yield what is wrong with the settings; paths start below them."""
    if tls.mode in _GATEWAY_MODES:
        yield ("mode",), f"{tls.mode} is not for Sidecars; use SIMPLE or MUTUAL"
    if tls.https_redirect:
        yield ("httpsRedirect",), "is for gateways only"
    if tls.credential_name:
        yield ("credentialName",), "is for gateways only; name files at the proxy instead"
    if tls.credential_names:
        yield ("credentialNames",), "is for gateways only; name files at the proxy instead"
    if tls.subject_alt_names:
        yield ("subjectAltNames",), "is for gateways only"
    if port is not None and not port.known_protocol.is_tls:
        yield (), "needs a port with the protocol HTTPS or TLS"
    if tls.mode not in _GATEWAY_MODES and not tls.credentials:
        yield from server_tls_mistakes(tls)


def ingress_warnings(ingress: IngressListener) -> Iterator[Finding]:
    """Yield what is probably not meant in an ingress listener; paths start below it."""
    pool, port = ingress.connection_pool, ingress.port
    if ingress.tls is not None:
        yield (
            ("tls",),
            "has no effect, as in Istio unless switched on: the application ends this TLS",
        )
    if port is None:
        return
    yield from port_warnings(port)
    if port.target_port is not None:
        yield ("port", "targetPort"), "is deprecated and has no effect; use defaultEndpoint"
    match parse_default_endpoint(ingress.default_endpoint):
        case OriginalEndpoint(port=named) if named != port.number:
            yield (
                ("defaultEndpoint",),
                (
                    "names no address, so that its port has no effect, as in Istio: connections "
                    f"go to the port {port.number} of the workload; 127.0.0.1:{named} and "
                    f"0.0.0.0:{named} lead to that one"
                ),
            )
    is_http = port.known_protocol.is_http or port.known_protocol is Protocol.AUTO
    if pool is not None and pool.http is not None and not is_http:
        yield (
            ("connectionPool", "http"),
            f"has no effect on the port {port.number}, which is not HTTP",
        )
