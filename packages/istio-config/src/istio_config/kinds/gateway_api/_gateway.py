"""Gateway: the ports of a router, the certificates there, and the routes that may attach.

Source: the Gateway API, v1.
"""

from enum import StrEnum

import msgspec

from istio_config.kinds.fields import Labels, PortNumber, SpecFields, Text, Unchecked
from istio_config.kinds.gateway_api._gateway_class import ParametersReference
from istio_config.kinds.gateway_api._names import GROUP
from istio_config.kinds.gateway_api._references import ObjectReference

HTTP, HTTPS, TLS, TCP, UDP = "HTTP", "HTTPS", "TLS", "TCP", "UDP"
PROTOCOLS = (HTTP, HTTPS, TLS, TCP, UDP)
TLS_TERMINATE_MODE = "gateway.istio.io/tls-terminate-mode"
"""Istio's option of a listener: MUTUAL, ISTIO_MUTUAL or SIMPLE."""


class TlsMode(StrEnum):
    """Where TLS ends: at the router, or behind it."""

    TERMINATE = "Terminate"
    PASSTHROUGH = "Passthrough"


class FrontendValidation(SpecFields, frozen=True):
    """The roots that certificates of clients are validated with."""

    ca_certificate_refs: tuple[ObjectReference, ...] = ()
    mode: str = ""


class ListenerTls(SpecFields, frozen=True):
    """TLS at a listener."""

    mode: TlsMode | None = None
    certificate_refs: tuple[ObjectReference, ...] = ()
    options: Labels = msgspec.field(default_factory=dict)
    frontend_validation: FrontendValidation | None = None


class From(StrEnum):
    """The namespaces whose routes may attach."""

    ALL = "All"
    SAME = "Same"
    SELECTOR = "Selector"
    NONE = "None"


class Operator(StrEnum):
    """A relation of a label to values."""

    IN = "In"
    NOT_IN = "NotIn"
    EXISTS = "Exists"
    DOES_NOT_EXIST = "DoesNotExist"


class Requirement(SpecFields, frozen=True):
    """A condition on one label."""

    key: Text
    operator: Operator
    values: tuple[str, ...] = ()


class LabelSelector(SpecFields, frozen=True):
    """Conditions on labels, all of which must hold."""

    match_labels: Labels = msgspec.field(default_factory=dict)
    match_expressions: tuple[Requirement, ...] = ()


class RouteNamespaces(SpecFields, frozen=True):
    """The namespaces whose routes may attach, by their labels if so."""

    from_: From = From.SAME
    selector: LabelSelector | None = None


class RouteKind(SpecFields, frozen=True):
    """A kind of routes."""

    kind: Text
    group: str = GROUP


class AllowedRoutes(SpecFields, frozen=True):
    """The routes that may attach to a listener."""

    namespaces: RouteNamespaces = RouteNamespaces()
    kinds: tuple[RouteKind, ...] = ()
    """Empty: those that fit the listener's protocol."""


class Listener(SpecFields, frozen=True):
    """A port of the router, for one host name or all."""

    name: Text
    port: PortNumber
    protocol: Text
    hostname: str | None = None
    tls: ListenerTls | None = None
    allowed_routes: AllowedRoutes = AllowedRoutes()

    @property
    def terminates(self) -> bool:
        """Whether TLS ends at this listener."""
        if self.protocol not in (HTTPS, TLS):
            return False
        return self.tls is None or self.tls.mode is not TlsMode.PASSTHROUGH


class GatewayAddress(SpecFields, frozen=True):
    """An address of the gateway; a Hostname is that of the service whose endpoints are routers."""

    type: str = "IPAddress"
    value: str = ""


class Infrastructure(SpecFields, frozen=True):
    """Labels and annotations of what a controller deploys."""

    labels: Labels = msgspec.field(default_factory=dict)
    annotations: Labels = msgspec.field(default_factory=dict)
    parameters_ref: ParametersReference | None = None


class ListenerNamespaces(SpecFields, frozen=True):
    """The namespaces whose ListenerSets may attach."""

    from_: From = From.NONE
    selector: LabelSelector | None = None


class AllowedListeners(SpecFields, frozen=True):
    """The ListenerSets that may attach."""

    namespaces: ListenerNamespaces = ListenerNamespaces()


class BackendTls(SpecFields, frozen=True):
    """The certificate that the gateway shows to backends."""

    client_certificate_ref: ObjectReference | None = None


class FrontendTls(SpecFields, frozen=True):
    """Validation of clients' certificates, for all ports or some."""

    default: Unchecked = None
    per_port: Unchecked = None


class GatewayTls(SpecFields, frozen=True):
    """TLS of all listeners together."""

    backend: BackendTls | None = None
    frontend: FrontendTls | None = None


class GatewaySpec(SpecFields, frozen=True):
    """A router: its listeners, and which routers take the part."""

    gateway_class_name: Text
    listeners: tuple[Listener, ...]
    addresses: tuple[GatewayAddress, ...] = ()
    infrastructure: Infrastructure | None = None
    backend_tls: BackendTls | None = msgspec.field(default=None, name="backendTLS")
    allowed_listeners: AllowedListeners | None = None
    tls: GatewayTls | None = None
    default_scope: str = "None"
