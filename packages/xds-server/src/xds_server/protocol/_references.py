"""Which endpoints a cluster refers to, and which routes a listener.

The names are read off the wire rather than decoded, as every cluster and listener of every change
is looked at.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from xds_server.protocol._resource import Resource
from xds_server.protocol._wire_fields import fields, varint

_EDS = 3  # envoy.config.cluster.v3.Cluster.DiscoveryType.EDS

# Field numbers of envoy.config.cluster.v3.Cluster, and of its EdsClusterConfig.
_NAME, _TYPE, _EDS_CONFIG = 1, 2, 3
_CONFIG_SOURCE, _SERVICE_NAME = 1, 2
_SAME_STREAM = (3, 5)  # ads and self of envoy.config.core.v3.ConfigSource


def endpoints_of(cluster: Resource) -> str | None:
    """Return the name of the endpoints that a cluster gets over the same stream; None if none."""
    derived = cluster._derived
    if derived.endpoints is None:
        try:
            derived.endpoints = _endpoints_name(cluster.body)
        except ValueError:
            derived.endpoints = ""  # Not a Cluster; whether to accept it is for the client to say.
    return derived.endpoints or None


def first_text(body: bytes) -> str:
    """Return field 1 of a message, which is the name in every type of resource that has one."""
    return next((body[a:b].decode() for field, a, b in fields(body) if field == _NAME), "")


def _endpoints_name(body: bytes) -> str:
    name = service_name = b""
    kind = 0
    here = False
    for field, start, end in fields(body):
        if field == _NAME:
            name = body[start:end]
        elif field == _TYPE:
            kind, _ = varint(body, start)
        elif field == _EDS_CONFIG:
            config = body[start:end]
            for inner, first, last in fields(config):
                if inner == _SERVICE_NAME:
                    service_name = config[first:last]
                elif inner == _CONFIG_SOURCE:
                    here = _is_same_stream(config[first:last])
    return (service_name or name).decode() if kind == _EDS and here else ""


def _is_same_stream(config_source: bytes) -> bool:
    return any(field in _SAME_STREAM for field, _, _ in fields(config_source))


# Field numbers on the way from a Listener to its routes.
_API_LISTENER, _DEFAULT_FILTER_CHAIN = 19, 25
_FILTERS = 3  # of envoy.config.listener.v3.FilterChain; filter_chains of Listener is 3 as well
_TYPED_CONFIG = 4  # of envoy.config.listener.v3.Filter
_RDS, _RDS_NAME = 3, 2  # of HttpConnectionManager, and of its Rds
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
    for field, start, end in fields(body):
        if field in (_FILTERS, _DEFAULT_FILTER_CHAIN):
            for config in _inside(_inside([body[start:end]], _FILTERS), _TYPED_CONFIG):
                yield from _routes_of_manager(config)
        elif field == _API_LISTENER:
            for config in _inside([body[start:end]], 1):
                yield from _routes_of_manager(config)


def _routes_of_manager(config: bytes) -> Iterator[str]:
    """Yield the route name of a packed `Any`, if it is a connection manager with RDS."""
    if _MANAGER not in _inside([config], 1):
        return
    for rds in _inside(_inside([config], 2), _RDS):
        if any(map(_is_same_stream, _inside([rds], _CONFIG_SOURCE))):
            yield from (name.decode() for name in _inside([rds], _RDS_NAME))


def _inside(messages: Iterable[bytes], number: int) -> list[bytes]:
    """Return the values of one field of some messages."""
    return [body[a:b] for body in messages for field, a, b in fields(body) if field == number]
