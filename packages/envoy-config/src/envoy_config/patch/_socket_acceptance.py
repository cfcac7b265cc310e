"""Finds what Envoy refuses in the transport sockets of patched clusters and filter chains.

Seen with Envoy 1.36 and 1.40.
"""

from collections.abc import Iterator
from typing import Any as Unchecked

from envoy_config.generate._messages import base_pb2, cluster_pb2
from istio_config.envoy_api import content_type, type_in, unpacked

HTTP_OPTIONS = "envoy.extensions.upstreams.http.v3.HttpProtocolOptions"
_SOCKETS = "envoy.extensions.transport_sockets."
_TLS = f"{_SOCKETS}tls.v3.UpstreamTlsContext"
_QUIC = f"{_SOCKETS}quic.v3.QuicUpstreamTransport"
_QUIC_SERVER = f"{_SOCKETS}quic.v3.QuicDownstreamTransport"


def http_options(cluster: cluster_pb2.Cluster) -> Unchecked:
    """Return the HTTP options of a cluster, or None."""
    if HTTP_OPTIONS not in cluster.typed_extension_protocol_options:
        return None
    found = cluster.typed_extension_protocol_options[HTTP_OPTIONS]
    return unpacked(found) if type_in(found.type_url) == HTTP_OPTIONS else None


def upstream_socket_mistakes(cluster: cluster_pb2.Cluster) -> Iterator[str]:
    """Yield what Envoy refuses in the sockets of a cluster."""
    sockets = [each.transport_socket for each in cluster.transport_socket_matches]
    if not all(each.HasField("typed_config") for each in sockets):
        yield "one of transport_socket_matches has no transport_socket"
    for each in (*sockets, cluster.transport_socket):
        found = content_type(each.typed_config)
        if found and not (found.startswith(_SOCKETS) and "Downstream" not in found):
            yield f"the transport socket {each.name} has a {found}, which is none for clusters"
    options = http_options(cluster)
    if options is None:
        return
    # A cluster without a socket of its own, or with none that matches, has a raw one.
    used = [*sockets, cluster.transport_socket]
    if options.HasField("auto_config") and not all(map(_chooses_protocols, used)):
        yield "auto_config of HTTP options needs TLS in all transport sockets"
    explicit, as_caller = options.explicit_http_config, options.use_downstream_protocol_config
    http3 = any(each.HasField("http3_protocol_options") for each in (explicit, as_caller))
    if http3 and content_type(cluster.transport_socket.typed_config) != _QUIC:
        yield "HTTP/3 needs the transport socket of QUIC"


def downstream_socket_mistakes(socket: base_pb2.TransportSocket) -> Iterator[str]:
    """Yield what Envoy refuses in the socket of a filter chain."""
    found = content_type(socket.typed_config)
    if found and not (found.startswith(_SOCKETS) and "Upstream" not in found):
        yield f"the transport socket {socket.name} has a {found}, which is none for listeners"


def speaks_quic(socket: base_pb2.TransportSocket) -> bool:
    """Return whether the socket of a filter chain is one of QUIC."""
    return content_type(socket.typed_config) == _QUIC_SERVER


def _chooses_protocols(socket: base_pb2.TransportSocket) -> bool:
    """Return whether a socket agrees on a protocol with its peer (ALPN), or one that it wraps."""
    found = content_type(socket.typed_config)
    if found in (_TLS, _QUIC):
        return True
    inner = getattr(unpacked(socket.typed_config), "transport_socket", None) if found else None
    return isinstance(inner, base_pb2.TransportSocket) and _chooses_protocols(inner)
