"""Envoy's routes of a VirtualService: one for each match, in the order in which they are written.

Sidecars and gateways share this. What a proxy's scope means to a VirtualService is in the targets
of its destinations, so that proxies with equal targets share routes.
"""

from collections.abc import Iterator
from typing import NamedTuple

from envoy_config.generate._messages import route_components_pb2, struct
from envoy_config.generate.routes._actions import direct_response, redirect_action, set_clusters
from envoy_config.generate.routes._filter_settings import set_filters
from envoy_config.generate.routes._headers import change_headers
from envoy_config.generate.routes._matches import everything, is_catch_all, route_match
from envoy_config.plan.virtual_hosts._targets import Targets, http_targets
from istio_config.kinds.virtual_service import HttpMatch, HttpRetry, HttpRoute
from mesh_model import Labels, Scope, VirtualService

MESH = "mesh"
_INTERNAL_ERROR = route_components_pb2.RouteAction.ClusterNotFoundResponseCode.INTERNAL_SERVER_ERROR


class RoutePlace(NamedTuple):
    """The place that routes are for: a port of the mesh or of a gateway, and the proxies there."""

    port: int
    gateway: str = MESH
    """`mesh`, or `namespace/name`."""
    namespace: str = ""
    """Of the proxies, as their labels, for matches on the source of requests."""
    labels: Labels = ()
    is_tls: bool = False
    forwards_host: bool = False
    """Whether upstreams are sent the host of a request where another replaces it."""


def scope_routes(
    virtual_service: VirtualService,
    *,
    port: int,
    scope: Scope,
    gateway: str = MESH,
    is_tls: bool = False,
    default_retries: HttpRetry | None,
) -> list[route_components_pb2.Route]:
    """Make the routes of a VirtualService for the proxies of a scope; may be none."""
    place = RoutePlace(port, gateway, scope.key.namespace, scope.key.labels, is_tls)
    targets = http_targets(virtual_service.spec, port, scope)
    return http_routes(virtual_service, place, targets, default_retries=default_retries)


def http_routes(
    virtual_service: VirtualService,
    place: RoutePlace,
    targets: Targets,
    *,
    default_retries: HttpRetry | None,
) -> list[route_components_pb2.Route]:
    """Make the routes of a VirtualService at a place; may be none."""
    return list(_until_all_is_taken(_Maker(virtual_service, place, targets, default_retries)))


def _until_all_is_taken(maker: "_Maker") -> Iterator[route_components_pb2.Route]:
    for route in maker.routes():
        yield route
        if is_catch_all(route.match):
            return


class _Maker:
    def __init__(
        self,
        virtual_service: VirtualService,
        place: RoutePlace,
        targets: Targets,
        default_retries: HttpRetry | None,
    ) -> None:
        self._virtual_service = virtual_service
        self._place = place
        self._targets = targets
        self._default_retries = default_retries
        self._labels = dict(place.labels)

    def routes(self) -> Iterator[route_components_pb2.Route]:
        for route in self._virtual_service.spec.http:
            if not route.match:
                yield from self._route(route, None)
            for match in route.match:
                if self._applies(match):
                    yield from self._route(route, match)

    def _applies(self, match: HttpMatch) -> bool:
        place = self._place
        if match.port not in (None, place.port):
            return False
        if match.gateways:
            return place.gateway in match.gateways
        return (
            match.source_namespace in ("", place.namespace)
            and match.source_labels.items() <= self._labels.items()
        )

    def _route(
        self, route: HttpRoute, match: HttpMatch | None
    ) -> Iterator[route_components_pb2.Route]:
        """Yield the route of a match; none if Envoy would refuse it."""
        message = route_components_pb2.Route(
            name=_name(route, match),
            match=route_match(match, whole_elements=self._virtual_service.whole_elements)
            if match is not None
            else everything(),
        )
        if match is not None and match.stat_prefix:
            message.stat_prefix = match.stat_prefix
        change_headers(message, route.headers)
        if route.redirect is not None:
            place = self._place
            redirect = redirect_action(route.redirect, port=place.port, is_tls=place.is_tls)
            if redirect is None:
                return
            message.redirect.CopyFrom(redirect)
        elif route.direct_response is not None:
            message.direct_response.CopyFrom(direct_response(route.direct_response))
        elif route.route:
            set_clusters(message, route, self._targets, default_retries=self._default_retries)
            if self._virtual_service.gateway_semantics:
                message.route.cluster_not_found_response_code = _INTERNAL_ERROR
            message.route.append_x_forwarded_host = self._place.forwards_host and bool(
                message.route.host_rewrite_literal
                or any(
                    each.host_rewrite_literal for each in message.route.weighted_clusters.clusters
                )
            )
        else:
            return
        set_filters(message, route)
        message.metadata.filter_metadata["istio"].CopyFrom(struct([("config", self._path())]))
        message.decorator.operation = self._operation(message)
        yield message

    def _path(self) -> str:
        found = self._virtual_service
        return (
            f"/apis/networking.istio.io/v1/namespaces/{found.namespace}"
            f"/virtual-service/{found.name}"
        )

    def _operation(self, route: route_components_pb2.Route) -> str:
        """Return the name of spans: where the requests go, and their path."""
        match route.match.WhichOneof("path_specifier"):
            case "prefix":
                path = f"{route.match.prefix}*"
            case "path_separated_prefix":
                path = f"{route.match.path_separated_prefix}/*"
            case "path":
                path = route.match.path
            case _:
                path = route.match.safe_regex.regex
        subject = route.route.cluster.rpartition("|")[2] or self._virtual_service.name
        return f"{subject}:{self._place.port}{path}"


def _name(route: HttpRoute, match: HttpMatch | None) -> str:
    return f"{route.name}.{match.name}" if match is not None and match.name else route.name
