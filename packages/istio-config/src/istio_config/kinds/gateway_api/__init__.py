"""The Kubernetes Gateway API: gateways, the routes that attach to them, grants of references.

Listeners, of Gateways and ListenerSets, are in `listeners`.
"""

from typing import Any

from istio_config.kinds.gateway_api._backend_tls_policy import (
    BACKEND_TLS_POLICY,
    IGNORED,
    BackendTlsPolicySpec,
    PolicyTarget,
)
from istio_config.kinds.gateway_api._connection_routes import (
    TCP_ROUTE,
    TLS_ROUTE,
    TcpRouteSpec,
    TlsRouteSpec,
)
from istio_config.kinds.gateway_api._filters import (
    Cors,
    GrpcFilter,
    HttpFilter,
    Redirect,
    UrlRewrite,
)
from istio_config.kinds.gateway_api._filters_rules import BACKEND_FILTERS
from istio_config.kinds.gateway_api._gateway import GATEWAY, GatewaySpec
from istio_config.kinds.gateway_api._gateway_class import (
    CONTROLLER,
    DEFAULT_CLASS,
    GATEWAY_CLASS,
    GatewayClassSpec,
)
from istio_config.kinds.gateway_api._gateway_tls import ClientValidation, ValidationMode
from istio_config.kinds.gateway_api._grpc_route import (
    GRPC_ROUTE,
    GrpcBackend,
    GrpcMatch,
    GrpcRouteSpec,
    GrpcRule,
    MethodMatch,
)
from istio_config.kinds.gateway_api._headers import HeaderFilter, MatchType, ValueMatch
from istio_config.kinds.gateway_api._http_route import (
    HTTP_ROUTE,
    HttpBackend,
    HttpMatch,
    HttpRouteSpec,
    HttpRule,
    PathMatch,
    PathType,
)
from istio_config.kinds.gateway_api._listener_set import LISTENER_SET, ListenerSetSpec
from istio_config.kinds.gateway_api._names import GROUP, seconds
from istio_config.kinds.gateway_api._reference_grant import REFERENCE_GRANT, ReferenceGrantSpec
from istio_config.kinds.gateway_api._references import (
    ISTIO,
    BackendObjectReference,
    BackendReference,
    LocalReference,
    ParentReference,
)
from istio_config.kinds.kind import Kind

GATEWAY_API_KINDS: tuple[Kind[Any], ...] = (
    GATEWAY_CLASS,
    GATEWAY,
    HTTP_ROUTE,
    GRPC_ROUTE,
    TLS_ROUTE,
    TCP_ROUTE,
    REFERENCE_GRANT,
    BACKEND_TLS_POLICY,
    LISTENER_SET,
)
"""The kinds of the Gateway API that have an effect."""

__all__ = [
    "BACKEND_FILTERS",
    "BackendObjectReference",
    "BackendReference",
    "BackendTlsPolicySpec",
    "CONTROLLER",
    "ClientValidation",
    "Cors",
    "DEFAULT_CLASS",
    "GATEWAY",
    "GATEWAY_API_KINDS",
    "GROUP",
    "GatewayClassSpec",
    "GatewaySpec",
    "GrpcBackend",
    "GrpcFilter",
    "GrpcMatch",
    "GrpcRouteSpec",
    "GrpcRule",
    "HeaderFilter",
    "HttpBackend",
    "HttpFilter",
    "HttpMatch",
    "HttpRouteSpec",
    "HttpRule",
    "IGNORED",
    "ISTIO",
    "ListenerSetSpec",
    "LocalReference",
    "MatchType",
    "MethodMatch",
    "ParentReference",
    "PathMatch",
    "PathType",
    "PolicyTarget",
    "Redirect",
    "ReferenceGrantSpec",
    "TcpRouteSpec",
    "TlsRouteSpec",
    "UrlRewrite",
    "ValidationMode",
    "ValueMatch",
    "seconds",
]
