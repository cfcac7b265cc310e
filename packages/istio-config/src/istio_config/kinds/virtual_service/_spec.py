"""The fields of a VirtualService, down to its routes.

Source: Istio's API, networking/v1.
"""

from istio_config.kinds.fields import SpecFields
from istio_config.kinds.virtual_service._actions import (
    CorsPolicy,
    Delegate,
    FaultInjection,
    HttpDirectResponse,
    HttpRedirect,
    HttpRetry,
    HttpRewrite,
    MirrorPolicy,
)
from istio_config.kinds.virtual_service._destinations import (
    Destination,
    Headers,
    HttpRouteDestination,
    Percent,
    RouteDestination,
)
from istio_config.kinds.virtual_service._matches import HttpMatch, TcpMatch, TlsMatch
from mesh_configfile import Duration


class HttpRoute(SpecFields, frozen=True):
    """A route of requests: any of its matches, and what is done then."""

    name: str = ""
    match: tuple[HttpMatch, ...] = ()
    route: tuple[HttpRouteDestination, ...] = ()
    redirect: HttpRedirect | None = None
    direct_response: HttpDirectResponse | None = None
    delegate: Delegate | None = None
    rewrite: HttpRewrite | None = None
    timeout: Duration | None = None
    retries: HttpRetry | None = None
    fault: FaultInjection | None = None
    mirror: Destination | None = None
    mirrors: tuple[MirrorPolicy, ...] = ()
    mirror_percent: int | None = None
    """Deprecated for `mirrorPercentage`."""
    mirror_percentage: Percent | None = None
    cors_policy: CorsPolicy | None = None
    headers: Headers | None = None


class TlsRoute(SpecFields, frozen=True):
    """A route of TLS connections that are not ended here, by SNI."""

    match: tuple[TlsMatch, ...] = ()
    route: tuple[RouteDestination, ...] = ()


class TcpRoute(SpecFields, frozen=True):
    """A route of connections."""

    match: tuple[TcpMatch, ...] = ()
    route: tuple[RouteDestination, ...] = ()


class VirtualServiceSpec(SpecFields, frozen=True):
    """How requests and connections to some hosts are routed."""

    hosts: tuple[str, ...] = ()
    gateways: tuple[str, ...] = ()
    """Empty: `mesh`, which is all sidecars."""
    http: tuple[HttpRoute, ...] = ()
    tls: tuple[TlsRoute, ...] = ()
    tcp: tuple[TcpRoute, ...] = ()
    export_to: tuple[str, ...] = ()
