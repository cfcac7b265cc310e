"""Envoy's messages, gathered in one place, and the ones that are built everywhere."""

import functools
from collections.abc import Iterable

from envoy.config.accesslog.v3 import accesslog_pb2
from envoy.config.cluster.v3 import circuit_breaker_pb2, cluster_pb2, outlier_detection_pb2
from envoy.config.common.matcher.v3 import matcher_pb2
from envoy.config.core.v3 import (
    address_pb2,
    base_pb2,
    config_source_pb2,
    grpc_service_pb2,
    health_check_pb2,
    protocol_pb2,
    substitution_format_string_pb2,
)
from envoy.config.endpoint.v3 import endpoint_components_pb2, endpoint_pb2
from envoy.config.listener.v3 import api_listener_pb2, listener_components_pb2, listener_pb2
from envoy.config.route.v3 import route_components_pb2, route_pb2
from envoy.extensions.access_loggers.file.v3 import file_pb2
from envoy.extensions.access_loggers.stream.v3 import stream_pb2
from envoy.extensions.clusters.dynamic_forward_proxy.v3 import cluster_pb2 as dfp_cluster_pb2
from envoy.extensions.common.dynamic_forward_proxy.v3 import dns_cache_pb2
from envoy.extensions.filters.http.dynamic_forward_proxy.v3 import (
    dynamic_forward_proxy_pb2 as dfp_filter_pb2,
)
from envoy.extensions.filters.http.router.v3 import router_pb2
from envoy.extensions.filters.listener.tls_inspector.v3 import tls_inspector_pb2
from envoy.extensions.filters.network.http_connection_manager.v3 import (
    http_connection_manager_pb2,
)
from envoy.extensions.filters.network.sni_dynamic_forward_proxy.v3 import (
    sni_dynamic_forward_proxy_pb2 as sni_dfp_pb2,
)
from envoy.extensions.filters.network.tcp_proxy.v3 import tcp_proxy_pb2
from envoy.extensions.retry.host.previous_hosts.v3 import previous_hosts_pb2
from envoy.extensions.transport_sockets.raw_buffer.v3 import raw_buffer_pb2
from envoy.extensions.transport_sockets.tls.v3 import common_pb2, secret_pb2, tls_pb2
from envoy.extensions.upstreams.http.v3 import http_protocol_options_pb2
from envoy.type.matcher.v3 import string_pb2
from envoy.type.v3 import percent_pb2
from google.protobuf import any_pb2, duration_pb2, struct_pb2, wrappers_pb2
from google.protobuf.message import Message

from istio_config.addresses import socket_path

__all__ = [
    "accesslog_pb2",
    "any_pb2",
    "address",
    "address_pb2",
    "api_listener_pb2",
    "base_pb2",
    "circuit_breaker_pb2",
    "cluster_pb2",
    "common_pb2",
    "dfp_cluster_pb2",
    "dfp_filter_pb2",
    "sni_dfp_pb2",
    "dns_cache_pb2",
    "config_source_pb2",
    "duration",
    "duration_pb2",
    "endpoint_components_pb2",
    "endpoint_pb2",
    "file_pb2",
    "from_ads",
    "grpc_service_pb2",
    "health_check_pb2",
    "http_connection_manager_pb2",
    "http_protocol_options_pb2",
    "listener_components_pb2",
    "listener_pb2",
    "matcher_pb2",
    "outlier_detection_pb2",
    "packed",
    "percent_pb2",
    "previous_hosts_pb2",
    "protocol_pb2",
    "raw_buffer_pb2",
    "route_components_pb2",
    "route_pb2",
    "router_pb2",
    "secret_pb2",
    "stream_pb2",
    "string_pb2",
    "struct",
    "struct_pb2",
    "substitution_format_string_pb2",
    "tcp_proxy_pb2",
    "tls_inspector_pb2",
    "tls_pb2",
    "wrappers_pb2",
]


def packed(message: Message) -> any_pb2.Any:
    """Wrap a message as google.protobuf.Any, with the same bytes every time."""
    return any_pb2.Any(
        type_url=f"type.googleapis.com/{message.DESCRIPTOR.full_name}",
        value=message.SerializeToString(deterministic=True),
    )


def duration(seconds: float) -> duration_pb2.Duration:
    """Make a google.protobuf.Duration."""
    nanos = round(seconds * 1e9)
    return duration_pb2.Duration(seconds=nanos // 10**9, nanos=nanos % 10**9)


def struct(fields: Iterable[tuple[str, str]]) -> struct_pb2.Struct:
    """Make a google.protobuf.Struct of text fields."""
    return struct_pb2.Struct(
        fields={key: struct_pb2.Value(string_value=value) for key, value in fields}
    )


def address(host: str, port: int) -> address_pb2.Address:
    """Make a TCP address; of `unix:///path`, that of a Unix socket."""
    if (path := socket_path(host)) is not None:
        return address_pb2.Address(pipe=address_pb2.Pipe(path=path))
    return address_pb2.Address(
        socket_address=address_pb2.SocketAddress(address=host, port_value=port)
    )


@functools.cache
def from_ads() -> config_source_pb2.ConfigSource:
    """Make the source of a resource that comes over the ADS stream, however late."""
    return config_source_pb2.ConfigSource(
        ads=config_source_pb2.AggregatedConfigSource(),
        initial_fetch_timeout=duration(0),
        resource_api_version=config_source_pb2.ApiVersion.V3,
    )
