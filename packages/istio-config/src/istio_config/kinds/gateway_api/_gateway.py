"""Gateway: its listeners and addresses.

Source: the Gateway API, v1.
"""

from collections.abc import Iterator

import msgspec

from istio_config.addresses import is_ip
from istio_config.kinds.checks import below
from istio_config.kinds.fields import Labels, SpecFields, Text
from istio_config.kinds.gateway_api._gateway_class import ParametersReference
from istio_config.kinds.gateway_api._gateway_tls import (
    BackendTls,
    GatewayTls,
    gateway_tls_mistakes,
    gateway_tls_warnings,
)
from istio_config.kinds.gateway_api._names import GROUP, wrong_hostname
from istio_config.kinds.gateway_api._references import DefaultScope
from istio_config.kinds.gateway_api.listeners import (
    From,
    Listener,
    RouteNamespaces,
    listeners_mistakes,
    listeners_warnings,
    namespace_mistakes,
)
from istio_config.kinds.kind import Kind
from istio_config.kinds.metadata import Metadata
from mesh_configfile.shapes import Finding


class GatewayAddress(SpecFields, frozen=True):
    """An address of the gateway; a Hostname is that of the service whose endpoints are routers."""

    type: str = "IPAddress"
    value: str = ""


class Infrastructure(SpecFields, frozen=True):
    """Labels and annotations of what a controller deploys."""

    labels: Labels = msgspec.field(default_factory=dict)
    annotations: Labels = msgspec.field(default_factory=dict)
    parameters_ref: ParametersReference | None = None


class AllowedListeners(SpecFields, frozen=True):
    """The ListenerSets that may attach."""

    namespaces: RouteNamespaces = RouteNamespaces(from_=From.NONE)


class GatewaySpec(SpecFields, frozen=True):
    """A gateway: its class, its listeners, and which routers serve it."""

    gateway_class_name: Text
    listeners: tuple[Listener, ...] = ()
    addresses: tuple[GatewayAddress, ...] = ()
    infrastructure: Infrastructure | None = None
    backend_tls: BackendTls | None = msgspec.field(default=None, name="backendTLS")
    allowed_listeners: AllowedListeners | None = None
    tls: GatewayTls | None = None
    default_scope: DefaultScope = DefaultScope.NONE


_MOST_ADDRESSES = 16
_UNSUPPORTED = "is not supported here; remove it"


def _mistakes(spec: GatewaySpec, _metadata: Metadata) -> Iterator[Finding]:
    allowed = spec.allowed_listeners
    yield from listeners_mistakes(spec.listeners)
    if allowed is not None:
        yield from namespace_mistakes(allowed.namespaces, ("allowedListeners", "namespaces"))
    yield from _address_mistakes(spec.addresses)
    yield from _unsupported_mistakes(spec)
    if spec.tls is not None:
        yield from below(("tls",), gateway_tls_mistakes(spec.tls))


def _address_mistakes(addresses: tuple[GatewayAddress, ...]) -> Iterator[Finding]:
    if len(addresses) > _MOST_ADDRESSES:
        yield ("addresses",), f"has {len(addresses)} entries; {_MOST_ADDRESSES} are allowed"
    seen: set[tuple[str, str]] = set()
    for index, each in enumerate(addresses):
        path = ("addresses", index, "value")
        if each.value and (each.type, each.value) in seen:
            yield path, f'the address "{each.value}" is given twice'
        seen.add((each.type, each.value))
        if each.type == "IPAddress":
            if each.value and not is_ip(each.value):
                yield path, f'"{each.value}" is not an IP address'
        elif each.type == "Hostname" and each.value:
            text = wrong_hostname(each.value, allow_wildcard=False)
            yield from ((path, text),) if text else ()


def _unsupported_mistakes(spec: GatewaySpec) -> Iterator[Finding]:
    if spec.backend_tls is not None:
        yield ("backendTLS",), _UNSUPPORTED


def _warnings(spec: GatewaySpec, _metadata: Metadata) -> Iterator[Finding]:
    if spec.tls is not None:
        yield from below(("tls",), gateway_tls_warnings(spec.tls))
    if spec.infrastructure is not None:
        yield ("infrastructure",), "has no effect: no proxies are deployed here"
    for index, each in enumerate(spec.addresses):
        if each.type == "IPAddress":
            yield (
                ("addresses", index),
                (
                    "has no effect: the routers' own addresses are those they listen on; "
                    "a Hostname names the service of the routers"
                ),
            )
        elif each.type != "Hostname":
            yield (
                ("addresses", index, "type"),
                f'"{each.type}" is not supported here: it has no effect; use Hostname',
            )
    if spec.default_scope is not DefaultScope.NONE:
        yield (
            ("defaultScope",),
            "has no effect, as in Istio: routes attach by their parentRefs alone",
        )
    yield from listeners_warnings(spec.listeners)


GATEWAY = Kind(
    name="Gateway",
    group=GROUP,
    versions=("v1", "v1beta1"),
    spec=GatewaySpec,
    validate=_mistakes,
    warn=_warnings,
)
