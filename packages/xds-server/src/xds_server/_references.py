"""Which resources others refer to: the endpoints of clusters, the routes of listeners."""

from __future__ import annotations

from collections.abc import Iterable

from envoy.config.listener.v3 import listener_pb2
from envoy.extensions.filters.network.http_connection_manager.v3 import (
    http_connection_manager_pb2,
)
from google.protobuf.message import DecodeError

from ._resource import Resource
from ._warming import endpoints_of


def endpoints_wanted(clusters: Iterable[Resource]) -> frozenset[str]:
    """The names of the endpoints that clusters get over the same stream."""
    return frozenset(name for cluster in clusters if (name := endpoints_of(cluster)))


def routes_wanted(listeners: Iterable[Resource]) -> frozenset[str]:
    """The names of the route configurations that listeners get over xDS."""
    return frozenset(name for listener in listeners for name in _routes_of(listener))


def _routes_of(resource: Resource) -> Iterable[str]:
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
            if manager.rds.route_config_name:
                yield manager.rds.route_config_name
