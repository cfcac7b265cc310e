"""Which resources others refer to: endpoints of clusters, routes of listeners and of scopes."""

from __future__ import annotations

from collections.abc import Iterable

from envoy.config.listener.v3 import listener_pb2
from envoy.config.route.v3 import scoped_route_pb2
from envoy.extensions.filters.network.http_connection_manager.v3 import (
    http_connection_manager_pb2,
)
from google.protobuf.message import DecodeError

from xds_server.protocol._references import endpoints_of
from xds_server.protocol._resource import Resource


def wanted_endpoints(clusters: Iterable[Resource]) -> frozenset[str]:
    """The names of the endpoints that clusters get over the same stream."""
    return frozenset(name for cluster in clusters if (name := endpoints_of(cluster)))


def wanted_routes(listeners: Iterable[Resource]) -> frozenset[str]:
    """The names of the route configurations that listeners get over xDS."""
    return frozenset(name for listener in listeners for name in _routes_of(listener))


def routes_of_scopes(scopes: Iterable[Resource]) -> frozenset[str]:
    """The names of the route configurations that scoped routes lead to."""
    return frozenset(name for scope in scopes for name in _routes_of_scope(scope))


def scopes_are_wanted(listeners: Iterable[Resource]) -> bool:
    """Return whether any listener gets its scoped routes over xDS."""
    return any(
        manager.scoped_routes.HasField("scoped_rds")
        for listener in listeners
        for manager in _managers_of(listener)
    )


def _routes_of_scope(resource: Resource) -> Iterable[str]:
    scope = scoped_route_pb2.ScopedRouteConfiguration()
    try:
        scope.MergeFromString(resource.body)
    except DecodeError:
        return
    if scope.route_configuration_name:
        yield scope.route_configuration_name


def _routes_of(resource: Resource) -> Iterable[str]:
    for manager in _managers_of(resource):
        if manager.rds.route_config_name:
            yield manager.rds.route_config_name
        inline = manager.scoped_routes.scoped_route_configurations_list
        for scope in inline.scoped_route_configurations:
            if scope.route_configuration_name:
                yield scope.route_configuration_name


def _managers_of(resource: Resource) -> Iterable[http_connection_manager_pb2.HttpConnectionManager]:
    try:
        listener = listener_pb2.Listener.FromString(resource.body)
    except DecodeError:
        return
    chains = list(listener.filter_chains)
    if listener.HasField("default_filter_chain"):
        chains.append(listener.default_filter_chain)
    anys = [a_filter.typed_config for chain in chains for a_filter in chain.filters]
    anys.append(listener.api_listener.api_listener)
    for packed in anys:
        manager = http_connection_manager_pb2.HttpConnectionManager()
        if packed.Is(manager.DESCRIPTOR):
            manager.MergeFromString(packed.value)
            yield manager
