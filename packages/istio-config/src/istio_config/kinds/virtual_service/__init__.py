"""VirtualService: how requests and connections to hosts are routed."""

from istio_config.kinds.virtual_service._answers import DerivePort, HttpDirectResponse, HttpRedirect
from istio_config.kinds.virtual_service._connection_routes import TcpRoute, TlsRoute
from istio_config.kinds.virtual_service._cors import CorsPolicy, UnmatchedPreflights
from istio_config.kinds.virtual_service._destinations import (
    Destination,
    HttpRouteDestination,
    MirrorPolicy,
    Percent,
    PortSelector,
    RouteDestination,
)
from istio_config.kinds.virtual_service._faults import GRPC_STATUSES, Abort, Delay, FaultInjection
from istio_config.kinds.virtual_service._forwarding import (
    HttpRetry,
    HttpRewrite,
    RegexRewrite,
    retry_mistakes,
)
from istio_config.kinds.virtual_service._headers import HeaderOperations, Headers, names_authority
from istio_config.kinds.virtual_service._http_routes import HttpRoute
from istio_config.kinds.virtual_service._kind import (
    VIRTUAL_SERVICE,
    VirtualServiceSpec,
    expressions,
)
from istio_config.kinds.virtual_service._matches import (
    HttpMatch,
    StringMatch,
    TcpMatch,
    TlsMatch,
    claim_path,
    names_claim,
)
from istio_config.kinds.virtual_service._shadowed_matches import never_reached, takes_everything

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
    "never_reached",
    "takes_everything",
    "retry_mistakes",
]
