"""VirtualService: its hosts, its gateways, who sees it, and the rules of the whole object.

Source of the rules: Istio's validation of networking/v1, and what Envoy refuses.
"""

import re
from collections.abc import Iterator

from istio_config.addresses import is_ip
from istio_config.host_patterns import overlaps
from istio_config.kinds._regular_expressions import Expression, cost_mistakes
from istio_config.kinds.checks import export_to_mistakes, is_dns_label, is_wildcard_host
from istio_config.kinds.fields import SpecFields
from istio_config.kinds.kind import Coded, Kind
from istio_config.kinds.metadata import Metadata
from istio_config.kinds.virtual_service._connection_routes import (
    TcpRoute,
    TlsRoute,
    shadowed_route_warnings,
    tcp_route_mistakes,
    tcp_route_warnings,
    tls_route_mistakes,
    tls_route_warnings,
)
from istio_config.kinds.virtual_service._http_routes import (
    HttpRoute,
    http_route_expressions,
    http_route_mistakes,
    http_route_warnings,
)
from istio_config.kinds.virtual_service._shadowed_matches import shadowed_match_warnings
from mesh_configfile.shapes import Finding


class VirtualServiceSpec(SpecFields, frozen=True):
    """How requests and connections to some hosts are routed."""

    hosts: tuple[str, ...] = ()
    gateways: tuple[str, ...] = ()
    """Empty means `mesh`, all sidecars."""
    http: tuple[HttpRoute, ...] = ()
    tls: tuple[TlsRoute, ...] = ()
    tcp: tuple[TcpRoute, ...] = ()
    export_to: tuple[str, ...] = ()


def expressions(spec: VirtualServiceSpec) -> Iterator[Expression]:
    """Yield the regular expressions of all routes."""
    for index, route in enumerate(spec.http):
        yield from http_route_expressions(route, ("http", index))


MESH = "mesh"
"""The gateway that stands for all sidecars."""
_SNI_HOST = re.compile(r"outbound_\.[0-9]+_\.[^_]*_\.[A-Za-z0-9*][A-Za-z0-9.*-]*")
"""The SNI of mutual TLS through an AUTO_PASSTHROUGH server, as Istio's validation takes it."""


def _mistakes(spec: VirtualServiceSpec, metadata: Metadata) -> Iterator[Finding]:
    if not (spec.http or spec.tls or spec.tcp):
        yield (), "routes nothing: give http, tls or tcp"
    at_gateway = any(each != MESH for each in spec.gateways)
    if spec.hosts:
        yield from _host_mistakes(spec, at_gateway=at_gateway)
    else:
        yield from _delegate_mistakes(spec)
    for index, name in enumerate(spec.gateways):
        if (wrong := _gateway_mistake(name)) is not None:
            yield ("gateways", index), wrong
    yield from export_to_mistakes(spec.export_to, metadata.namespace)
    for index, http in enumerate(spec.http):
        yield from http_route_mistakes(
            http, ("http", index), at_gateway=at_gateway, in_delegate=not spec.hosts
        )
    yield from cost_mistakes(expressions(spec))
    for index, tls in enumerate(spec.tls):
        yield from tls_route_mistakes(tls, ("tls", index), hosts=spec.hosts)
    for index, tcp in enumerate(spec.tcp):
        yield from tcp_route_mistakes(tcp, ("tcp", index))


def _host_mistakes(spec: VirtualServiceSpec, *, at_gateway: bool) -> Iterator[Finding]:
    for index, host in enumerate(spec.hosts):
        path = ("hosts", index)
        if at_gateway and host.startswith("outbound_."):
            if not _SNI_HOST.fullmatch(host):
                yield path, f'"{host}" must be outbound_.PORT_.SUBSET_.HOST'
        elif not is_ip(host) and not is_wildcard_host(host):
            yield (
                path,
                (
                    f'"{host}" is not a host name; write it like reviews, reviews.example.com or '
                    "*.example.com"
                ),
            )
        elif host == "*" and not at_gateway:
            yield path, "* is for gateways: name hosts for the mesh, or a gateway in gateways"
        for other in spec.hosts[:index]:
            if overlaps(host.lower(), other.lower()):
                yield path, f'"{host}" and "{other}" overlap: keep one'
                break


def _delegate_mistakes(spec: VirtualServiceSpec) -> Iterator[Finding]:
    """Yield the fields that a delegate, a VirtualService without hosts, must not have."""
    for field, given in (
        ("gateways", bool(spec.gateways)),
        ("tls", bool(spec.tls)),
        ("tcp", bool(spec.tcp)),
    ):
        if given:
            yield (field,), "is not allowed without hosts, in a VirtualService to delegate to"


def _gateway_mistake(name: str) -> str | None:
    namespace, slash, gateway = name.rpartition("/")
    if slash:
        if not namespace or not gateway:
            return f'"{name}" must be NAMESPACE/NAME'
        if namespace != "." and not is_dns_label(namespace):
            return f'"{namespace}" is not a namespace'
    if not all(map(is_dns_label, gateway.split("."))):
        return f'"{gateway}" is not the name of a Gateway'
    return None


def _warnings(
    spec: VirtualServiceSpec,
    _metadata: Metadata,
) -> Iterator[Finding | Coded]:
    """Yield what is accepted and probably not meant; paths start below the spec."""
    for index, gateway in enumerate(spec.gateways):
        if "/" not in gateway and "." in gateway:
            yield ("gateways", index), f'"{gateway}" is better written NAMESPACE/NAME'
    for index, route in enumerate(spec.http):
        yield from http_route_warnings(route, ("http", index))
    yield from shadowed_match_warnings(spec.http)
    for index, tls in enumerate(spec.tls):
        yield from tls_route_warnings(tls, ("tls", index))
    for index, tcp in enumerate(spec.tcp):
        yield from tcp_route_warnings(tcp, ("tcp", index))
    yield from shadowed_route_warnings("tls", spec.tls)
    yield from shadowed_route_warnings("tcp", spec.tcp)


VIRTUAL_SERVICE = Kind(
    name="VirtualService",
    group="networking.istio.io",
    versions=("v1", "v1beta1", "v1alpha3"),
    spec=VirtualServiceSpec,
    validate=_mistakes,
    warn=_warnings,
)
