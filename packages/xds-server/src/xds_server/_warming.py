"""Which endpoints a cluster waits for, and which routes a listener.

Envoy warms a changed EDS cluster anew: it takes no traffic until its endpoints arrive again,
even if they are the same. A delta client does not ask for them, and a state-of-the-world client
asks in a way that looks like an ACK, so a server has to send them of its own accord.
https://github.com/envoyproxy/envoy/issues/13009
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

from ._fields import fields, varint
from ._held import NO_NAMES
from ._resource import Resource

_EDS = 3  # envoy.config.cluster.v3.Cluster.DiscoveryType.EDS

# Field numbers of envoy.config.cluster.v3.Cluster, and of its EdsClusterConfig.
_NAME, _TYPE, _EDS_CONFIG = 1, 2, 3
_CONFIG_SOURCE, _SERVICE_NAME = 1, 2
_SAME_STREAM = (3, 5)  # ads and self of envoy.config.core.v3.ConfigSource


def endpoints_of(cluster: Resource) -> str | None:
    """The name under which a cluster's endpoints come over the same stream; None if they do not.

    Read off the wire rather than decoded, as it is asked of every cluster of every change.
    """
    known = cluster._endpoints
    if known is None:
        try:
            known = _endpoints_name(cluster.body)
        except ValueError:
            known = ""  # Not a Cluster; whether to accept it is for the client to say.
        object.__setattr__(cluster, "_endpoints", known)
    return known or None


def first_text(body: bytes) -> str:
    """Field 1 of a message, which is the name in every type of resource that has one."""
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
    """The names of the routes that a listener gets over the same stream."""
    known = listener._routes
    if known is None:
        try:
            known = tuple(dict.fromkeys(_route_names(listener.body)))
        except ValueError:
            known = ()  # Not a Listener; whether to accept it is for the client to say.
        object.__setattr__(listener, "_routes", known)
    return known


def _route_names(body: bytes) -> Iterator[str]:
    for field, start, end in fields(body):
        if field in (_FILTERS, _DEFAULT_FILTER_CHAIN):
            for config in _inside(_inside([body[start:end]], _FILTERS), _TYPED_CONFIG):
                yield from _routes_of_manager(config)
        elif field == _API_LISTENER:
            for config in _inside([body[start:end]], 1):
                yield from _routes_of_manager(config)


def _routes_of_manager(config: bytes) -> Iterator[str]:
    """Of a packed `google.protobuf.Any`, if it is a connection manager with RDS."""
    if _MANAGER not in _inside([config], 1):
        return
    for rds in _inside(_inside([config], 2), _RDS):
        if any(map(_is_same_stream, _inside([rds], _CONFIG_SOURCE))):
            yield from (name.decode() for name in _inside([rds], _RDS_NAME))


def _inside(messages: Iterable[bytes], number: int) -> list[bytes]:
    """The values of one field of some messages."""
    return [body[a:b] for body in messages for field, a, b in fields(body) if field == number]


class Warming:
    """The endpoints that the clusters sent on one stream still wait for.

    They may be asked for only later, or not at all: a delta client that reconnects says that it
    has them, and warms all the same.
    """

    __slots__ = ("_missing", "_unconfirmed", "awaited")

    def __init__(self) -> None:
        self.awaited: frozenset[str] = NO_NAMES
        self._unconfirmed: frozenset[str] = NO_NAMES  # awaited and sent, but not answered
        self._missing: frozenset[str] = NO_NAMES  # awaited, and it was found that there are none

    def clusters_sent(self, clusters: Iterable[Resource]) -> None:
        new = (name for cluster in clusters if (name := endpoints_of(cluster)))
        self.awaited = self.awaited.union(new) or NO_NAMES

    def clusters_gone(self, clusters: Iterable[Resource]) -> None:
        self.endpoints_sent({name for cluster in clusters if (name := endpoints_of(cluster))})

    def endpoints_answered(self) -> None:
        """The client has answered the last endpoints it was sent, and so all of them."""
        self._unconfirmed = NO_NAMES

    def in_doubt(self) -> frozenset[str]:
        """What the client may still wait for should it lose this stream, and not ask for again."""
        return self.awaited | self._unconfirmed

    def resume(self, names: frozenset[str]) -> None:
        """These were in doubt on the client's last stream."""
        self.awaited |= names

    def endpoints_sent(self, names: Iterable[str]) -> None:
        if self:
            names = frozenset(names)
            self._unconfirmed = (self._unconfirmed | (self.awaited & names)) or NO_NAMES
            self.awaited = (self.awaited - names) or NO_NAMES
            self._missing = (self._missing - names) or NO_NAMES

    def take(self, wanted: Callable[[str], bool]) -> frozenset[str]:
        """The awaited names among those wanted; what is not sent for them now is missing."""
        names = frozenset(filter(wanted, self.awaited))
        self.awaited = (self.awaited - names) or NO_NAMES
        self._missing = (self._missing | names) or NO_NAMES
        return names

    def give_up(self) -> None:
        """Wait no longer."""
        self.take(lambda _name: True)

    def is_waiting(self, cluster: Resource) -> bool:
        """Whether a cluster has not got its endpoints, so that no route can use it."""
        name = endpoints_of(cluster)
        return name in self.awaited or name in self._missing

    def __bool__(self) -> bool:
        return bool(self.awaited or self._missing)
