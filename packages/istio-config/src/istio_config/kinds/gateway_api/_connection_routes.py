"""TLSRoute and TCPRoute: how connections are routed, by the name in their TLS or by port.

Source: the Gateway API, v1 and v1alpha2.
"""

from collections.abc import Iterator

from istio_config.kinds.fields import SpecFields, Text
from istio_config.kinds.gateway_api._names import GROUP
from istio_config.kinds.gateway_api._references import (
    BackendReference,
    DefaultScope,
    ParentReference,
    connection_backend_mistakes,
    parent_mistakes,
)
from istio_config.kinds.gateway_api._routes import (
    hostname_mistakes,
    parent_warnings,
    rule_list_mistakes,
)
from istio_config.kinds.kind import Kind
from istio_config.kinds.metadata import Metadata
from mesh_configfile.shapes import Finding


class ConnectionRule(SpecFields, frozen=True):
    """The backends of the connections."""

    backend_refs: tuple[BackendReference, ...]
    name: Text | None = None


class TlsRouteSpec(SpecFields, frozen=True):
    """How TLS connections at the parents are routed, by their SNI."""

    rules: tuple[ConnectionRule, ...]
    parent_refs: tuple[ParentReference, ...] = ()
    use_default_gateways: DefaultScope = DefaultScope.NONE
    hostnames: tuple[Text, ...] = ()


class TcpRouteSpec(SpecFields, frozen=True):
    """How TCP connections at the parents are routed."""

    rules: tuple[ConnectionRule, ...]
    parent_refs: tuple[ParentReference, ...] = ()
    use_default_gateways: DefaultScope = DefaultScope.NONE


def _mistakes(spec: TlsRouteSpec | TcpRouteSpec, _metadata: Metadata) -> Iterator[Finding]:
    yield from parent_mistakes(spec.parent_refs)
    if isinstance(spec, TlsRouteSpec):
        yield from hostname_mistakes(spec.hostnames)
    yield from rule_list_mistakes([each.name for each in spec.rules], least=1)
    if len(spec.rules) > 1:
        yield (
            ("rules", 1),
            "can never be reached: the first rule has all connections; put the backends there",
        )
    for index, rule in enumerate(spec.rules):
        path = ("rules", index)
        if not rule.backend_refs:
            yield (*path, "backendRefs"), "must have one entry at least"
        yield from connection_backend_mistakes(rule.backend_refs, path)


def _warnings(spec: TlsRouteSpec | TcpRouteSpec, _metadata: Metadata) -> Iterator[Finding]:
    yield from parent_warnings(spec.parent_refs, spec.use_default_gateways)


TLS_ROUTE = Kind(
    name="TLSRoute",
    group=GROUP,
    versions=("v1", "v1alpha3", "v1alpha2"),
    spec=TlsRouteSpec,
    validate=_mistakes,
    warn=_warnings,
)
TCP_ROUTE = Kind(
    name="TCPRoute",
    group=GROUP,
    versions=("v1", "v1alpha2"),
    spec=TcpRouteSpec,
    validate=_mistakes,
    warn=_warnings,
)
