"""VirtualService: how requests and connections to hosts are routed."""

from istio_config.kinds.virtual_service._action_mistakes import retry_mistakes
from istio_config.kinds.virtual_service._actions import (
    Abort,
    CorsPolicy,
    Delay,
    DerivePort,
    FaultInjection,
    HttpDirectResponse,
    HttpRedirect,
    HttpRetry,
    HttpRewrite,
    MirrorPolicy,
    RegexRewrite,
    UnmatchedPreflights,
)
from istio_config.kinds.virtual_service._destinations import (
    Destination,
    HeaderOperations,
    Headers,
    HttpRouteDestination,
    Percent,
    PortSelector,
    RouteDestination,
)
from istio_config.kinds.virtual_service._expressions import expressions
from istio_config.kinds.virtual_service._header_mistakes import names_authority
from istio_config.kinds.virtual_service._kind import VIRTUAL_SERVICE
from istio_config.kinds.virtual_service._match_mistakes import claim_path, names_claim
from istio_config.kinds.virtual_service._matches import HttpMatch, StringMatch, TcpMatch, TlsMatch
from istio_config.kinds.virtual_service._spec import (
    HttpRoute,
    TcpRoute,
    TlsRoute,
    VirtualServiceSpec,
)
from istio_config.kinds.virtual_service._statuses import GRPC_STATUSES

__all__ = [
    "Abort",
    "CorsPolicy",
    "Delay",
    "DerivePort",
    "Destination",
    "FaultInjection",
    "GRPC_STATUSES",
    "HeaderOperations",
    "Headers",
    "HttpDirectResponse",
    "HttpMatch",
    "HttpRedirect",
    "HttpRetry",
    "HttpRewrite",
    "HttpRoute",
    "HttpRouteDestination",
    "MirrorPolicy",
    "Percent",
    "PortSelector",
    "RegexRewrite",
    "RouteDestination",
    "StringMatch",
    "TcpMatch",
    "TcpRoute",
    "TlsMatch",
    "TlsRoute",
    "UnmatchedPreflights",
    "VIRTUAL_SERVICE",
    "VirtualServiceSpec",
    "claim_path",
    "expressions",
    "names_authority",
    "names_claim",
    "retry_mistakes",
]
