"""The Kubernetes Gateway API: gateways, the routes that attach to them, grants of references."""

from istio_config.kinds.gateway_api._connection_routes import TcpRouteSpec, TlsRouteSpec
from istio_config.kinds.gateway_api._gateway import (
    HTTP,
    HTTPS,
    TCP,
    TLS,
    TLS_TERMINATE_MODE,
    From,
    GatewaySpec,
    LabelSelector,
    Listener,
    Operator,
    Requirement,
)
from istio_config.kinds.gateway_api._gateway_class import (
    CONTROLLER,
    DEFAULT_CLASS,
    GatewayClassSpec,
)
from istio_config.kinds.gateway_api._grpc_route import (
    GrpcBackend,
    GrpcMatch,
    GrpcRouteSpec,
    GrpcRule,
    MethodMatch,
)
from istio_config.kinds.gateway_api._headers import HeaderFilter, MatchType, ValueMatch
from istio_config.kinds.gateway_api._http_filters import (
    Cors,
    GrpcFilter,
    HttpFilter,
    Redirect,
    UrlRewrite,
)
from istio_config.kinds.gateway_api._http_route import (
    HttpBackend,
    HttpMatch,
    HttpRouteSpec,
    HttpRule,
    PathMatch,
    PathType,
)
from istio_config.kinds.gateway_api._kinds import GATEWAY_API_KINDS
from istio_config.kinds.gateway_api._names import GROUP, seconds
from istio_config.kinds.gateway_api._reference_grant import ReferenceGrantSpec
from istio_config.kinds.gateway_api._references import (
    ISTIO,
    BackendObjectReference,
    BackendReference,
    ParentReference,
)

__all__ = [
    "BackendObjectReference",
    "BackendReference",
    "CONTROLLER",
    "Cors",
    "DEFAULT_CLASS",
    "From",
    "GATEWAY_API_KINDS",
    "GROUP",
    "GatewayClassSpec",
    "GatewaySpec",
    "GrpcBackend",
    "GrpcFilter",
    "GrpcMatch",
    "GrpcRouteSpec",
    "GrpcRule",
    "HTTP",
    "HTTPS",
    "HeaderFilter",
    "HttpBackend",
    "HttpFilter",
    "HttpMatch",
    "HttpRouteSpec",
    "HttpRule",
    "ISTIO",
    "LabelSelector",
    "Listener",
    "MatchType",
    "MethodMatch",
    "Operator",
    "ParentReference",
    "PathMatch",
    "PathType",
    "Redirect",
    "ReferenceGrantSpec",
    "Requirement",
    "TCP",
    "TLS",
    "TLS_TERMINATE_MODE",
    "TcpRouteSpec",
    "TlsRouteSpec",
    "UrlRewrite",
    "ValueMatch",
    "seconds",
]
