"""The network filters, HTTP filters and listener filters of listeners, and the messages of theirs.

HTTP filters stand in Istio's order; those of Istio's that a plain Envoy does not have are left out.
The faults and the CORS rules of routes act by filters that do nothing on other routes.
"""

from collections.abc import Iterable

from envoy.config.core.v3 import substitution_format_string_pb2
from envoy.extensions.filters.common.set_filter_state.v3 import value_pb2
from envoy.extensions.filters.http.cors.v3 import cors_pb2
from envoy.extensions.filters.http.fault.v3 import fault_pb2
from envoy.extensions.filters.http.grpc_stats.v3 import config_pb2 as grpc_stats_pb2
from envoy.extensions.filters.http.grpc_web.v3 import grpc_web_pb2
from envoy.extensions.filters.http.set_filter_state.v3 import set_filter_state_pb2
from envoy.extensions.filters.listener.http_inspector.v3 import http_inspector_pb2
from envoy.extensions.filters.listener.original_dst.v3 import original_dst_pb2
from envoy.extensions.filters.listener.original_src.v3 import original_src_pb2
from envoy.extensions.filters.listener.proxy_protocol.v3 import proxy_protocol_pb2
from envoy.type.v3 import range_pb2
from google.protobuf.message import Message

from envoy_config.generate._messages import (
    base_pb2,
    http_connection_manager_pb2,
    listener_components_pb2,
    packed,
    router_pb2,
    tls_inspector_pb2,
    wrappers_pb2,
)
from envoy_config.plan import _envoy_names as names

HttpFilter = http_connection_manager_pb2.HttpFilter
ListenerFilter = listener_components_pb2.ListenerFilter
_Predicate = listener_components_pb2.ListenerFilterChainMatchPredicate

UPSTREAM_ALPN = "istio-http/1.1,istio"
"""Offered by TLS to other proxies of the mesh, which tell by it that requests come.

None of the standard protocols is there: the server would choose one, whatever is spoken then.
"""

_FIRST_READ_BYTES = 512
_SOURCE_MARK = 1337
"""The mark of connections with the client's address, by which answers find their way back."""


def network_filter(name: str, config: Message) -> listener_components_pb2.Filter:
    """Make a network filter."""
    return listener_components_pb2.Filter(name=name, typed_config=packed(config))


def http_filter(name: str, config: Message) -> http_connection_manager_pb2.HttpFilter:
    """Make an HTTP filter."""
    return HttpFilter(name=name, typed_config=packed(config))


def route_filters(
    *, suppresses_debug_headers: bool = False
) -> list[http_connection_manager_pb2.HttpFilter]:
    """Make the filters by which routes inject faults and answer for CORS, then the router."""
    return [
        http_filter("envoy.filters.http.fault", fault_pb2.HTTPFault()),
        http_filter("envoy.filters.http.cors", cors_pb2.Cors()),
        router(suppresses_debug_headers=suppresses_debug_headers),
    ]


def router(*, suppresses_debug_headers: bool = False) -> http_connection_manager_pb2.HttpFilter:
    """Make the filter that ends the others."""
    config = router_pb2.Router(suppress_envoy_headers=suppresses_debug_headers)
    return http_filter("envoy.filters.http.router", config)


def grpc_filters(*, is_web: bool = False) -> list[http_connection_manager_pb2.HttpFilter]:
    """Make the filter that counts calls of gRPC, after the one that translates gRPC-Web."""
    statistics = http_filter(
        "envoy.filters.http.grpc_stats",
        grpc_stats_pb2.FilterConfig(
            emit_filter_state=True,
            stats_for_all_methods=wrappers_pb2.BoolValue(value=False),
        ),
    )
    web = http_filter("envoy.filters.http.grpc_web", grpc_web_pb2.GrpcWeb())
    return [web, statistics] if is_web else [statistics]


def mesh_alpn() -> http_connection_manager_pb2.HttpFilter:
    """Make the filter that has TLS to other proxies say that it carries requests.

    Without it, requests to a port of undeclared protocol would be taken for TCP there.
    """
    value = value_pb2.FilterStateValue(
        object_key="envoy.network.application_protocols",
        format_string=substitution_format_string_pb2.SubstitutionFormatString(
            text_format_source=base_pb2.DataSource(inline_string=UPSTREAM_ALPN)
        ),
        shared_with_upstream=value_pb2.FilterStateValue.SharedWithUpstream.ONCE,
    )
    return http_filter(
        names.MESH_ALPN_FILTER, set_filter_state_pb2.Config(on_request_headers=[value])
    )


def tls_inspector(*, off: "Ports | None" = None) -> listener_components_pb2.ListenerFilter:
    """Make the filter that finds TLS, its SNI and ALPN; off: of ports where it stays away."""
    config = tls_inspector_pb2.TlsInspector(
        initial_read_buffer_size=wrappers_pb2.UInt32Value(value=_FIRST_READ_BYTES)
    )
    return _listener_filter("envoy.filters.listener.tls_inspector", config, off)


def http_inspector(*, off: "Ports | None" = None) -> listener_components_pb2.ListenerFilter:
    """Make the filter that finds requests in plaintext; off: of ports where it stays away."""
    config = http_inspector_pb2.HttpInspector()
    return _listener_filter("envoy.filters.listener.http_inspector", config, off)


def proxy_protocol() -> listener_components_pb2.ListenerFilter:
    """Make the filter that takes clients' addresses from the PROXY protocol, and needs it."""
    config = proxy_protocol_pb2.ProxyProtocol()
    return _listener_filter("envoy.filters.listener.proxy_protocol", config, None)


def original_destination() -> listener_components_pb2.ListenerFilter:
    """Make the filter that finds where a connection was going."""
    config = original_dst_pb2.OriginalDst()
    return _listener_filter("envoy.filters.listener.original_dst", config, None)


def original_source() -> listener_components_pb2.ListenerFilter:
    """Make the filter that has the application see the client's address."""
    config = original_src_pb2.OriginalSrc(mark=_SOURCE_MARK)
    return _listener_filter("envoy.filters.listener.original_src", config, None)


class Ports:
    """A set of destination ports, or of all others."""

    def __init__(self, numbers: Iterable[int], *, inverted: bool = False) -> None:
        self._numbers = sorted(set(numbers))
        self._inverted = inverted

    def predicate(self) -> listener_components_pb2.ListenerFilterChainMatchPredicate | None:
        """Return the predicate that holds for the set; None if it never does."""
        if not self._numbers:
            return _Predicate(any_match=True) if self._inverted else None
        ranges = [
            _Predicate(destination_port_range=range_pb2.Int32Range(start=each, end=each + 1))
            for each in self._numbers
        ]
        found = ranges[0]
        if len(ranges) > 1:
            found = _Predicate(or_match=_Predicate.MatchSet(rules=ranges))
        return _Predicate(not_match=found) if self._inverted else found


def _listener_filter(
    name: str, config: Message, off: Ports | None
) -> listener_components_pb2.ListenerFilter:
    listener_filter = ListenerFilter(name=name, typed_config=packed(config))
    predicate = off.predicate() if off is not None else None
    if predicate is not None:
        listener_filter.filter_disabled.CopyFrom(predicate)
    return listener_filter
