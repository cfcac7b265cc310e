"""The answers of a push context to gRPC programs without an Envoy: resources by their names.

They ask for each resource by name, and lose those that are no longer generated.
"""

from collections.abc import Iterable
from typing import TYPE_CHECKING, NamedTuple

from envoy_config.context._cache import Cache
from envoy_config.context._scopes import Scopes
from envoy_config.generate.proxyless._inbound import server_listener
from envoy_config.generate.proxyless._outbound import (
    api_listener,
    cluster,
    load_assignment,
    route_configuration,
)
from envoy_config.generate.routes._http_routes import scope_routes
from envoy_config.plan._envoy_names import parse_outbound_cluster
from envoy_config.plan._proxy import Proxy
from envoy_config.plan._proxyless import (
    NotServed,
    Server,
    Target,
    is_server,
    plan_client,
    plan_server,
    plan_target,
)
from envoy_config.plan.policies._inbound_policies import inbound_policies
from envoy_config.plan.virtual_hosts._routed_hosts import PortService, routed_hosts
from istio_config.host_patterns import has
from mesh_model import MeshModel, ScopeKey, VirtualService
from xds_server import Generated, Resource

if TYPE_CHECKING:
    from envoy.config.cluster.v3.cluster_pb2 import Cluster
    from envoy.config.listener.v3.listener_pb2 import Listener
    from envoy.config.route.v3.route_components_pb2 import Route
    from envoy.config.route.v3.route_pb2 import RouteConfiguration


class _ClientName(NamedTuple):
    """A listener's name, as the clients of a namespace mean it."""

    scope: ScopeKey
    domain: str
    name: str


class _ServerName(NamedTuple):
    """A listener's name, as a server means it."""

    proxy: Proxy
    name: str


class _ClusterName(NamedTuple):
    """The name of a cluster, its route and its endpoints, as the programs of a scope see it."""

    scope: ScopeKey
    name: str


class ProxylessContext:
    """The resources of gRPC programs, each generated when it is first asked for."""

    def __init__(self, model: MeshModel, scopes: Scopes) -> None:
        self._model = model
        self._scopes = scopes
        self._client_listeners = Cache[_ClientName, Resource | None]()
        self._server_listeners = Cache[_ServerName, Resource | None]()
        self._routes = Cache[_ClusterName, Resource | None]()
        self._clusters = Cache[_ClusterName, Resource | None]()
        self._endpoints = Cache[_ClusterName, Resource | None]()

    def listeners(self, proxy: Proxy, wanted: frozenset[str]) -> Generated:
        """Return the listeners of these names; one that can't be is left out."""
        return _generated(self._listener(proxy, name) for name in sorted(wanted))

    def routes(self, proxy: Proxy, wanted: frozenset[str]) -> Generated:
        """Return the route configurations of these names; one that can't be is left out."""
        return _generated(
            self._routes.get(_ClusterName(self._scopes.key_of(proxy), name), self._make_route)
            for name in sorted(wanted)
        )

    def clusters(self, proxy: Proxy, wanted: frozenset[str]) -> Generated:
        """Return the clusters of these names; one that can't be is left out."""
        return _generated(
            self._clusters.get(_ClusterName(self._scopes.key_of(proxy), name), self._make_cluster)
            for name in sorted(wanted)
        )

    def endpoints(self, proxy: Proxy, wanted: frozenset[str]) -> Generated:
        """Return the load assignments of these clusters; one that can't be is left out."""
        return _generated(
            self._endpoints.get(
                _ClusterName(self._scopes.key_of(proxy), name), self._make_load_assignment
            )
            for name in sorted(wanted)
        )

    def not_served(self, proxy: Proxy, wanted: Iterable[str]) -> Iterable[tuple[str, str]]:
        """Yield the names that there is no listener of, each with the reason."""
        for name in sorted(wanted):
            planned: Target | Server | NotServed
            if is_server(name):
                planned = self._server(_ServerName(proxy, name))
            else:
                planned = self._client(_ClientName(self._scopes.key_of(proxy), proxy.domain, name))
            if isinstance(planned, NotServed):
                yield name, planned.reason

    def _listener(self, proxy: Proxy, name: str) -> Resource | None:
        if is_server(name):
            return self._server_listeners.get(_ServerName(proxy, name), self._make_server_listener)
        key = _ClientName(self._scopes.key_of(proxy), proxy.domain, name)
        return self._client_listeners.get(key, self._make_client_listener)

    def _make_client_listener(self, key: _ClientName) -> Resource | None:
        target = self._client(key)
        return _named(api_listener(key.name, target)) if isinstance(target, Target) else None

    def _make_server_listener(self, key: _ServerName) -> Resource | None:
        server = self._server(key)
        if not isinstance(server, Server):
            return None
        policies = inbound_policies(key.proxy, self._model)
        return _named(server_listener(key.name, server, policies))

    def _client(self, key: _ClientName) -> Target | NotServed:
        return plan_client(
            key.name,
            scope=self._scopes.get(key.scope),
            domain=key.domain,
            model=self._model,
        )

    def _server(self, key: _ServerName) -> Server | NotServed:
        return plan_server(key.name, key.proxy, self._model)

    def _make_route(self, key: _ClusterName) -> Resource | None:
        target = self._target(key)
        if target is None:
            return None
        return _named(route_configuration(target, self._routes_by_rule(target, key.scope)))

    def _routes_by_rule(self, target: Target, key: ScopeKey) -> "list[Route]":
        """Return the routes of the VirtualService that applies to a target, if one does."""
        scope, number = self._scopes.get(key), target.port.number
        listener = scope.egress_for(number)
        found = PortService(target.service, target.port)
        routes: dict[VirtualService, list[Route]] = {}

        def applies(each: VirtualService) -> bool:
            routes[each] = scope_routes(
                each,
                port=number,
                scope=scope,
                default_retries=self._model.mesh_config.default_http_retry_policy,
            )
            return bool(routes[each])

        hosts = routed_hosts(
            number,
            [found],
            [
                each
                for each in (listener.virtual_services if listener is not None else ())
                if any(has(host, target.service.host) for host in each.hosts)
            ],
            applies=applies,
        )
        return next(
            (
                routes[each.virtual_service]
                for each in hosts
                if each.found is found and each.virtual_service is not None
            ),
            [],
        )

    def _make_cluster(self, key: _ClusterName) -> Resource | None:
        target = self._target(key)
        return _named(cluster(target, self._model)) if target is not None else None

    def _make_load_assignment(self, key: _ClusterName) -> Resource | None:
        target = self._target(key)
        if target is None or target.service.is_looked_up:
            return None
        return Resource.pack(load_assignment(target, self._model), name=key.name)

    def _target(self, key: _ClusterName) -> Target | None:
        parsed = parse_outbound_cluster(key.name)
        if parsed is None:
            return None
        scope = self._scopes.get(key.scope)
        service = scope.services.get(parsed.host)
        if service is None:
            return None
        target = plan_target(service, parsed.port, parsed.subset, scope=scope, model=self._model)
        return target if isinstance(target, Target) else None


def _generated(resources: Iterable[Resource | None]) -> Generated:
    return Generated(resources=tuple(each for each in resources if each is not None))


def _named(message: "Cluster | Listener | RouteConfiguration") -> Resource:
    return Resource.pack(message, name=message.name)
