"""The places in Envoy's resources where extensions are named: field numbers of its messages.

A test compares every number and type with Envoy's own descriptors. Messages that are not listed
are not entered, and pass as they are.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, NamedTuple, TypeAlias


class ExtensionField(NamedTuple):
    """A field that names an extension: a message with a name and a configuration in an `Any`.

    message: its type; empty for an entry of a map from names to `Any`s.
    category: of the extensions that it may name.
    name, config: numbers of its fields; 0 for none.
    discovery: the field by which the configuration is fetched (ECDS).
    optional: the field that allows Envoy to lack the extension.
    removable: the message around it is valid without it.
    with_message: if it is removed, so is the message around it, which would mean something else.
    typed: Envoy needs a type there, and lists all types that it takes.
    """

    message: str
    category: str
    name: int
    config: int
    discovery: int = 0
    optional: int = 0
    removable: bool = True
    with_message: bool = False
    typed: bool = True


Content: TypeAlias = "str | ExtensionField"
"""A field's content: a message of a type that is listed, or a field that names an extension."""

_CONFIG = "envoy.config."
_EXTENSION = "envoy.extensions."

LISTENER: Final = _CONFIG + "listener.v3.Listener"
CLUSTER: Final = _CONFIG + "cluster.v3.Cluster"
ROUTES: Final = _CONFIG + "route.v3.RouteConfiguration"
SCOPED_ROUTES: Final = _CONFIG + "route.v3.ScopedRouteConfiguration"
VIRTUAL_HOST: Final = _CONFIG + "route.v3.VirtualHost"
EXTENSION_CONFIG: Final = _CONFIG + "core.v3.TypedExtensionConfig"
WRAPPER: Final = "envoy.service.discovery.v3.Resource"

HTTP_CONNECTION_MANAGER: Final = (
    _EXTENSION + "filters.network.http_connection_manager.v3.HttpConnectionManager"
)
COMMON_TLS: Final = _EXTENSION + "transport_sockets.tls.v3.CommonTlsContext"
UPSTREAM_TLS: Final = _EXTENSION + "transport_sockets.tls.v3.UpstreamTlsContext"
PER_ROUTE: Final = _CONFIG + "route.v3.FilterConfig"

HTTP_FILTERS: Final = "envoy.filters.http"
UPSTREAM_HTTP_FILTERS: Final = "envoy.filters.http.upstream"
NETWORK_FILTERS: Final = "envoy.filters.network"

_HTTP_FILTER = ExtensionField(
    _EXTENSION + "filters.network.http_connection_manager.v3.HttpFilter",
    HTTP_FILTERS,
    name=1,
    config=4,
    discovery=5,
    optional=6,
)
_UPSTREAM_HTTP_FILTER = _HTTP_FILTER._replace(category=UPSTREAM_HTTP_FILTERS)
_NETWORK_FILTER = ExtensionField(
    _CONFIG + "listener.v3.Filter", NETWORK_FILTERS, name=1, config=4, discovery=5
)
_LISTENER_FILTER = ExtensionField(
    _CONFIG + "listener.v3.ListenerFilter", "envoy.filters.listener", name=1, config=3, discovery=5
)
_UPSTREAM_FILTER = ExtensionField(
    _CONFIG + "cluster.v3.Filter", "envoy.filters.upstream_network", name=1, config=2, discovery=3
)
_ACCESS_LOG = ExtensionField(
    _CONFIG + "accesslog.v3.AccessLog", "envoy.access_loggers", name=1, config=4
)
_DOWNSTREAM_SOCKET = ExtensionField(
    _CONFIG + "core.v3.TransportSocket",
    "envoy.transport_sockets.downstream",
    name=1,
    config=3,
    removable=False,
)
_UPSTREAM_SOCKET = _DOWNSTREAM_SOCKET._replace(category="envoy.transport_sockets.upstream")
_FORMATTER = ExtensionField(EXTENSION_CONFIG, "envoy.formatter", name=1, config=2)
_OF_ROUTE = ExtensionField("", HTTP_FILTERS, name=1, config=2, typed=False)
_PROTOCOL_OPTIONS = ExtensionField("", "envoy.upstream_options", name=1, config=2, typed=False)
_TRACER = ExtensionField(
    _CONFIG + "trace.v3.Tracing.Http", "envoy.tracers", name=1, config=3, with_message=True
)

EXTENSION_RESOURCE: Final = ExtensionField(EXTENSION_CONFIG, "", name=1, config=2, removable=False)
"""A resource of ECDS."""

_FILTER_CHAIN = _CONFIG + "listener.v3.FilterChain"
_SOCKET_MATCH = _CONFIG + "cluster.v3.Cluster.TransportSocketMatch"
_ROUTE = _CONFIG + "route.v3.Route"
_ROUTE_ACTION = _CONFIG + "route.v3.RouteAction"
_WEIGHTED = _CONFIG + "route.v3.WeightedCluster"
_WEIGHT = _CONFIG + "route.v3.WeightedCluster.ClusterWeight"
_RETRY = _CONFIG + "route.v3.RetryPolicy"
_UPGRADE = HTTP_CONNECTION_MANAGER + ".UpgradeConfig"
TRACING: Final = HTTP_CONNECTION_MANAGER + ".Tracing"
_FORMAT = _CONFIG + "core.v3.SubstitutionFormatString"
_LOCAL_REPLY = _EXTENSION + "filters.network.http_connection_manager.v3.LocalReplyConfig"
_REPLY_MAPPER = _EXTENSION + "filters.network.http_connection_manager.v3.ResponseMapper"

INSIDE: Final[Mapping[str, Mapping[int, Content]]] = {
    LISTENER: {
        3: _FILTER_CHAIN,
        9: _LISTENER_FILTER,
        22: _ACCESS_LOG,
        25: _FILTER_CHAIN,
    },
    _FILTER_CHAIN: {3: _NETWORK_FILTER, 6: _DOWNSTREAM_SOCKET},
    HTTP_CONNECTION_MANAGER: {
        4: ROUTES,
        5: _HTTP_FILTER,
        7: TRACING,
        13: _ACCESS_LOG,
        23: _UPGRADE,
        38: _LOCAL_REPLY,
    },
    _UPGRADE: {2: _HTTP_FILTER},
    TRACING: {9: _TRACER},
    _LOCAL_REPLY: {1: _REPLY_MAPPER, 2: _FORMAT},
    _REPLY_MAPPER: {4: _FORMAT},
    _EXTENSION + "filters.network.tcp_proxy.v3.TcpProxy": {5: _ACCESS_LOG},
    _EXTENSION + "filters.http.router.v3.Router": {3: _ACCESS_LOG, 8: _UPSTREAM_HTTP_FILTER},
    _EXTENSION + "access_loggers.file.v3.FileAccessLog": {5: _FORMAT},
    _EXTENSION + "access_loggers.stream.v3.StdoutAccessLog": {1: _FORMAT},
    _EXTENSION + "access_loggers.stream.v3.StderrAccessLog": {1: _FORMAT},
    _FORMAT: {6: _FORMATTER},
    _EXTENSION + "transport_sockets.tls.v3.DownstreamTlsContext": {1: COMMON_TLS},
    UPSTREAM_TLS: {1: COMMON_TLS},
    COMMON_TLS: {},
    CLUSTER: {
        24: _UPSTREAM_SOCKET,
        36: _PROTOCOL_OPTIONS,
        40: _UPSTREAM_FILTER,
        43: _SOCKET_MATCH,
    },
    _SOCKET_MATCH: {3: _UPSTREAM_SOCKET},
    _EXTENSION + "upstreams.http.v3.HttpProtocolOptions": {6: _UPSTREAM_HTTP_FILTER, 11: _RETRY},
    ROUTES: {2: VIRTUAL_HOST, 16: _OF_ROUTE},
    SCOPED_ROUTES: {5: ROUTES},
    VIRTUAL_HOST: {3: _ROUTE, 15: _OF_ROUTE, 16: _RETRY},
    _ROUTE: {2: _ROUTE_ACTION, 13: _OF_ROUTE},
    _ROUTE_ACTION: {3: _WEIGHTED, 9: _RETRY},
    _WEIGHTED: {1: _WEIGHT},
    _WEIGHT: {10: _OF_ROUTE},
    _RETRY: {
        4: ExtensionField(_RETRY + ".RetryPriority", "envoy.retry_priorities", name=1, config=3),
        5: ExtensionField(
            _RETRY + ".RetryHostPredicate", "envoy.retry_host_predicates", name=1, config=3
        ),
    },
}
"""For each type the fields that lead to extensions."""

RESOURCES: Final = frozenset(
    {LISTENER, CLUSTER, ROUTES, SCOPED_ROUTES, VIRTUAL_HOST, EXTENSION_CONFIG}
)
"""The types of resources that name extensions."""
