"""HTTP protocol options of clusters: which version is spoken, and limits of connections."""

from enum import StrEnum

from envoy_config.generate._header_case import preserved_case
from envoy_config.generate._messages import (
    cluster_pb2,
    duration,
    http_protocol_options_pb2,
    packed,
    protocol_pb2,
)
from envoy_config.generate.clusters._cluster import number
from envoy_config.generate.clusters._outlier_detection import error_matcher
from envoy_config.plan._traffic_policy import Policy
from istio_config.kinds.destination_rule import H2UpgradePolicy, Http2KeepAlive
from istio_config.kinds.protocol import Protocol

_Options = http_protocol_options_pb2.HttpProtocolOptions
_KEY = "envoy.extensions.upstreams.http.v3.HttpProtocolOptions"
_MAX_STREAMS = 1073741824


class Speaks(StrEnum):
    """The version of HTTP that a proxy speaks to the endpoints of a cluster."""

    HTTP1 = "HTTP1"
    HTTP2 = "HTTP2"
    AS_CLIENT = "AS_CLIENT"
    """The version that the client spoke to the proxy."""
    NOT_HTTP = "NOT_HTTP"


def speaks(
    protocol: Protocol,
    policy: Policy,
    *,
    mesh_upgrade: bool,
    at_gateway: bool = False,
) -> Speaks:
    """Decide which version of HTTP is spoken to a port.

    mesh_upgrade: whether the mesh speaks HTTP/2 to HTTP ports whose rules say nothing of it.
    at_gateway: browsers offer HTTP/2 to a gateway, whatever is behind it; so what they speak says
    nothing about a port of undeclared protocol, as the applications of a mesh do at a sidecar.
    """
    http = policy.http
    is_http = protocol.is_http
    if not is_http and protocol is not Protocol.AUTO:
        return Speaks.NOT_HTTP
    if http.use_client_protocol:
        return Speaks.AS_CLIENT
    if protocol.is_http2 or protocol is Protocol.GRPC_WEB:
        return Speaks.HTTP2
    if http.h2_upgrade_policy is H2UpgradePolicy.UPGRADE:
        return Speaks.HTTP2
    if is_http and mesh_upgrade and http.h2_upgrade_policy is H2UpgradePolicy.DEFAULT:
        return Speaks.HTTP2
    return Speaks.HTTP1 if is_http or at_gateway else Speaks.AS_CLIENT


def set_http_options(
    cluster: cluster_pb2.Cluster,
    spoken: Speaks,
    policy: Policy,
    *,
    auto_sni: bool = False,
    auto_san_validation: bool = False,
    keeps_case: bool = False,
) -> None:
    """Set the options of a cluster, where there is something to set.

    auto_sni: the host of a request is the name that TLS asks for. auto_san_validation: and the one
    that the certificate must have. keeps_case: names of headers stay as clients write them.
    """
    options = _Options()
    common = options.common_http_protocol_options
    idle = policy.http.idle_timeout
    if idle is None:
        idle = policy.tcp.idle_timeout
    if idle is not None:
        common.idle_timeout.CopyFrom(duration(idle))
    if policy.http.max_requests_per_connection:
        common.max_requests_per_connection.CopyFrom(number(policy.http.max_requests_per_connection))
    if policy.tcp.max_connection_duration is not None:
        common.max_connection_duration.CopyFrom(duration(policy.tcp.max_connection_duration))
    if auto_sni:
        options.upstream_http_protocol_options.auto_sni = True
        options.upstream_http_protocol_options.auto_san_validation = auto_san_validation
    if policy.outlier_detection is not None:
        matcher = error_matcher(policy.outlier_detection)
        if matcher is not None:
            options.outlier_detection.error_matcher.CopyFrom(matcher)
    if options == _Options() and not keeps_case and spoken in (Speaks.HTTP1, Speaks.NOT_HTTP):
        return
    match spoken:
        case Speaks.HTTP2:
            options.explicit_http_config.http2_protocol_options.CopyFrom(_http2(policy))
        case Speaks.AS_CLIENT:
            both = options.use_downstream_protocol_config
            _http1(both.http_protocol_options, keeps_case=keeps_case)
            both.http2_protocol_options.CopyFrom(_http2(policy))
        case Speaks.HTTP1 | Speaks.NOT_HTTP:
            own = options.explicit_http_config.http_protocol_options
            _http1(own, keeps_case=keeps_case and spoken is Speaks.HTTP1)
    cluster.typed_extension_protocol_options[_KEY].CopyFrom(packed(options))


def _http1(options: protocol_pb2.Http1ProtocolOptions, *, keeps_case: bool) -> None:
    options.SetInParent()
    if keeps_case:
        options.header_key_format.CopyFrom(preserved_case())


def _http2(policy: Policy) -> protocol_pb2.Http2ProtocolOptions:
    options = protocol_pb2.Http2ProtocolOptions(
        max_concurrent_streams=number(policy.http.max_concurrent_streams or _MAX_STREAMS)
    )
    keepalive = policy.http.http2_keep_alive
    if keepalive is not None:
        _keep_alive(options, keepalive)
    return options


def _keep_alive(options: protocol_pb2.Http2ProtocolOptions, keepalive: Http2KeepAlive) -> None:
    if keepalive.interval is not None:
        options.connection_keepalive.interval.CopyFrom(duration(keepalive.interval))
    if keepalive.timeout is not None:
        options.connection_keepalive.timeout.CopyFrom(duration(keepalive.timeout))
