"""The route configurations of sidecars, by name."""

from typing import NamedTuple

from mesh_discovery.generate._routes import http_proxy_routes, port_routes, service_routes
from mesh_discovery.model._model import MeshModel
from mesh_discovery.model._scope import ScopeKey
from mesh_discovery.plan import _envoy_names as names
from mesh_discovery.push.context._cache import Cache
from mesh_discovery.push.context._model_change import ModelChange
from mesh_discovery.push.context._named import named
from mesh_discovery.push.context._scopes import MOST_SCOPES, Scopes
from mesh_discovery.push.context._shapes import RouteShape
from xds_server import Generated, Resource


class RouteName(NamedTuple):
    """A route configuration, as the proxies of a scope and a domain have it."""

    scope: ScopeKey
    domain: str
    name: str


class Routes:
    """Makes the route configurations of one model's sidecars, and keeps them."""

    def __init__(self, model: MeshModel, scopes: Scopes) -> None:
        self._model = model
        self._scopes = scopes
        self._of_shape = Cache[RouteShape, Generated]()
        self._configurations = Cache[RouteName, Resource | None](most=MOST_SCOPES)

    def of(self, shape: RouteShape) -> Generated:
        """Return the route configurations of a shape's names; one that can't be is left out."""
        return self._of_shape.get(shape, self._make)

    def adopt(self, before: "Routes", change: ModelChange) -> None:
        """Take over the route configurations that the change leaves as they are."""
        if change.only_endpoints:
            self._configurations.adopt_but(before._configurations, ())

    def _make(self, shape: RouteShape) -> Generated:
        found = (
            self._configurations.get(RouteName(shape.scope, shape.domain, each), self._make_one)
            for each in sorted(shape.names)
        )
        return Generated(resources=tuple(each for each in found if each is not None))

    def _make_one(self, key: RouteName) -> Resource | None:
        scope = self._scopes.get(key.scope)
        services = scope.services.values()
        name = key.name
        if name == names.HTTP_PROXY_ROUTE:
            return named(http_proxy_routes(services, self._model, proxy_domain=key.domain))
        host, colon, number = name.rpartition(":")
        if colon:
            service = scope.services.get(host) if scope.captured else None
            port = service.port(int(number)) if service and number.isdecimal() else None
            return named(service_routes(service, port)) if service and port else None
        if not (name.isascii() and name.isdecimal() and 1 <= int(name[:6]) <= 65535):
            return None
        return named(
            port_routes(
                int(name),
                services,
                self._model,
                proxy_domain=key.domain,
                captured=scope.captured,
            )
        )
