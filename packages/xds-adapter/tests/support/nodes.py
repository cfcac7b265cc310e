"""Nodes as Envoys describe themselves, with some of the extensions of a plain one."""

from __future__ import annotations

from envoy.config.core.v3 import base_pb2

_FILTERS = "envoy.extensions.filters."

PLAIN: dict[str, dict[str, list[str]]] = {
    "envoy.filters.http": {
        "envoy.filters.http.cors": [
            f"{_FILTERS}http.cors.v3.Cors",
            f"{_FILTERS}http.cors.v3.CorsPolicy",
        ],
        "envoy.filters.http.fault": [f"{_FILTERS}http.fault.v3.HTTPFault"],
        "envoy.filters.http.header_mutation": [
            f"{_FILTERS}http.header_mutation.v3.HeaderMutation",
            f"{_FILTERS}http.header_mutation.v3.HeaderMutationPerRoute",
        ],
        "envoy.filters.http.rbac": [
            f"{_FILTERS}http.rbac.v3.RBAC",
            f"{_FILTERS}http.rbac.v3.RBACPerRoute",
        ],
        "envoy.filters.http.router": [f"{_FILTERS}http.router.v3.Router"],
        "envoy.filters.http.set_filter_state": [f"{_FILTERS}http.set_filter_state.v3.Config"],
        "envoy.filters.http.grpc_stats": [f"{_FILTERS}http.grpc_stats.v3.FilterConfig"],
        "envoy.filters.http.wasm": [f"{_FILTERS}http.wasm.v3.Wasm"],
        "envoy.router": [],
    },
    "envoy.filters.network": {
        "envoy.filters.network.http_connection_manager": [
            f"{_FILTERS}network.http_connection_manager.v3.HttpConnectionManager"
        ],
        "envoy.filters.network.rbac": [f"{_FILTERS}network.rbac.v3.RBAC"],
        "envoy.filters.network.tcp_proxy": [f"{_FILTERS}network.tcp_proxy.v3.TcpProxy"],
        "envoy.filters.network.wasm": [f"{_FILTERS}network.wasm.v3.Wasm"],
    },
    "envoy.transport_sockets.upstream": {
        "envoy.transport_sockets.raw_buffer": [
            "envoy.extensions.transport_sockets.raw_buffer.v3.RawBuffer"
        ],
        "envoy.transport_sockets.tls": [
            "envoy.extensions.transport_sockets.tls.v3.UpstreamTlsContext"
        ],
        "raw_buffer": [],
    },
    "envoy.transport_sockets.downstream": {
        "envoy.transport_sockets.tls": [
            "envoy.extensions.transport_sockets.tls.v3.DownstreamTlsContext"
        ],
    },
    "envoy.access_loggers": {
        "envoy.access_loggers.file": ["envoy.extensions.access_loggers.file.v3.FileAccessLog"],
    },
    "envoy.filters.listener": {
        f"envoy.filters.listener.{name}": [f"{_FILTERS}listener.{name}.v3.{kind}"]
        for name, kind in (
            ("original_dst", "OriginalDst"),
            ("tls_inspector", "TlsInspector"),
            ("http_inspector", "HttpInspector"),
        )
    },
    "envoy.retry_host_predicates": {
        "envoy.retry_host_predicates.previous_hosts": [
            "envoy.extensions.retry.host.previous_hosts.v3.PreviousHostsPredicate"
        ],
    },
    "envoy.tracers": {"envoy.tracers.zipkin": ["envoy.config.trace.v3.ZipkinConfig"]},
    "envoy.wasm.runtime": {"envoy.wasm.runtime.null": []},
}

ISTIOS_OWN = {
    "istio.filters": {
        "istio.alpn": ["istio.envoy.config.filter.http.alpn.v2alpha1.FilterConfig"],
        "istio.stats": ["stats.PluginConfig"],
        "istio.metadata_exchange": ["envoy.tcp.metadataexchange.config.MetadataExchange"],
    }
}


def node(*listed: dict[str, dict[str, list[str]]]) -> bytes:
    """A serialised node that lists these extensions."""
    message = base_pb2.Node(id="sidecar~10.0.0.1~web.default~default.svc.cluster.local")
    for categories in listed:
        for category, extensions in categories.items():
            for name, types in extensions.items():
                message.extensions.add(name=name, category=category, type_urls=types)
    return bytes(message.SerializeToString())
