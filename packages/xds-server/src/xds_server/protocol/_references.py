"""Which endpoints a cluster refers to, and which routes a listener.

The names are read off the wire rather than decoded, as every cluster and listener of every change
is looked at.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from mesh_protowire import Span, scan, text, varint
from xds_server.protocol._names import shared_names
from xds_server.protocol._resource import Resource
from xds_server.protocol._resources_by_name import ResourcesByName

_EDS = 3  # envoy.config.cluster.v3.Cluster.DiscoveryType.EDS

# Field numbers of envoy.config.cluster.v3.Cluster, and of its EdsClusterConfig.
_NAME, _TYPE, _EDS_CONFIG = 1, 2, 3
_CONFIG_SOURCE, _SERVICE_NAME = 1, 2
_OF_CLUSTER = frozenset({_NAME, _EDS_CONFIG})
_TYPES = frozenset({_TYPE})
_OF_EDS_CONFIG = frozenset({_CONFIG_SOURCE, _SERVICE_NAME})
_SAME_STREAM = frozenset({3, 5})  # ads and self of envoy.config.core.v3.ConfigSource


def endpoints_of(cluster: Resource) -> str | None:
    """Return the name of the endpoints that a cluster gets over the same stream; None if none."""
    derived = cluster._derived
    if derived.endpoints is None:
        try:
            derived.endpoints = _endpoints_name(cluster.body)
        except ValueError:
            derived.endpoints = ""  # Not a Cluster; whether to accept it is for the client to say.
    return derived.endpoints or None


def endpoints_of_all(clusters: Mapping[str, Resource]) -> frozenset[str]:
    """Return the names of the endpoints of some clusters, one set for all streams."""
    known = clusters.endpoints if isinstance(clusters, ResourcesByName) else None
    if known is None:
        found = frozenset(name for each in clusters.values() if (name := endpoints_of(each)))
        known = shared_names(found)
        if isinstance(clusters, ResourcesByName):
            clusters.endpoints = known
    return known


def _endpoints_name(body: bytes) -> str:
    found = scan(body, _OF_CLUSTER, numbers=_TYPES)
    if _EDS_CONFIG not in found or _TYPE not in found:
        return ""
    kind, _ = varint(body, found[_TYPE][-1][0])
    if kind != _EDS:
        return ""
    service_name, here = "", False
    for config in found[_EDS_CONFIG]:
        inside = scan(body, _OF_EDS_CONFIG, *config)
        if _SERVICE_NAME in inside:
            service_name = text(body, inside[_SERVICE_NAME])
        if _CONFIG_SOURCE in inside:
            here = _is_same_stream(body, inside[_CONFIG_SOURCE][-1])
    return (service_name or text(body, found.get(_NAME))) if here else ""


def _is_same_stream(data: bytes, config_source: Span) -> bool:
    return bool(scan(data, _SAME_STREAM, *config_source))


# Field numbers on the way from a Listener to its routes.
_FILTER_CHAINS, _API_LISTENER, _DEFAULT_FILTER_CHAIN = 3, 19, 25
_OF_LISTENER = frozenset({_FILTER_CHAINS, _API_LISTENER, _DEFAULT_FILTER_CHAIN})
_FILTERS = 3  # of envoy.config.listener.v3.FilterChain
_TYPED_CONFIG = 4  # of envoy.config.listener.v3.Filter
_CONNECTION_MANAGER = 1  # of envoy.config.listener.v3.ApiListener
_ANY_TYPE_URL, _ANY_VALUE = 1, 2
_OF_ANY = frozenset({_ANY_TYPE_URL, _ANY_VALUE})
_RDS, _RDS_SOURCE, _RDS_NAME = 3, 1, 2  # of HttpConnectionManager, and of its Rds
_OF_RDS = frozenset({_RDS_SOURCE, _RDS_NAME})
_MANAGER = (
    b"type.googleapis.com/envoy.extensions.filters.network.http_connection_manager.v3."
    b"HttpConnectionManager"
)


def routes_of(listener: Resource) -> tuple[str, ...]:
    """Return the names of the route configurations that a listener gets over the same stream."""
    derived = listener._derived
    if derived.routes is None:
        try:
            derived.routes = tuple(dict.fromkeys(_route_names(listener.body)))
        except ValueError:
            derived.routes = ()  # Not a Listener; whether to accept it is for the client to say.
    return derived.routes


def _route_names(body: bytes) -> Iterator[str]:
    found = scan(body, _OF_LISTENER)
    for number in sorted(found):
        if number == _API_LISTENER:
            configs = _inside(body, found[number], _CONNECTION_MANAGER)
        else:
            filters = _inside(body, found[number], _FILTERS)
            configs = _inside(body, filters, _TYPED_CONFIG)
        for config in configs:
            yield from _routes_of_manager(body, config)


def _routes_of_manager(data: bytes, config: Span) -> Iterator[str]:
    """Yield the route name of a packed `Any`, if it is a connection manager with RDS."""
    found = scan(data, _OF_ANY, *config)
    if all(data[start:end] != _MANAGER for start, end in found.get(_ANY_TYPE_URL, ())):
        return
    for rds in _inside(data, found.get(_ANY_VALUE, ()), _RDS):
        inside = scan(data, _OF_RDS, *rds)
        if any(_is_same_stream(data, source) for source in inside.get(_RDS_SOURCE, ())):
            yield from (text(data, [name]) for name in inside.get(_RDS_NAME, ()))


def _inside(data: bytes, messages: Iterable[Span], number: int) -> list[Span]:
    """Return the places of one field of some messages."""
    wanted = frozenset({number})
    return [span for message in messages for span in scan(data, wanted, *message).get(number, ())]
