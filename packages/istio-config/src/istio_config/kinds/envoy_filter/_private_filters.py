"""Filters of Istio's own, which no other Envoy has: a patch with one is dropped, with a warning.

Source: the type URLs of Istio's Envoy and of its own EnvoyFilters.
"""

from collections.abc import Iterator

from istio_config.type_urls import type_in
from mesh_configfile import FieldPath, Value

_PREFIXES = ("istio.", "io.istio.", "stats.", "attributegen.", "stackdriver.")
_TYPES = frozenset(
    {
        "envoy.tcp.metadataexchange.config.MetadataExchange",
        "envoy.config.filter.network.metadata_exchange.v2alpha1.MetadataExchange",
        "envoy.config.filter.network.tcp_cluster_rewrite.v2alpha1.TcpClusterRewrite",
        "envoy.config.filter.http.alpn.v2alpha1.FilterConfig",
        "envoy.config.filter.http.peer_metadata.v2alpha1.Config",
    }
)
_COMPILED_IN = "envoy.wasm.runtime.null"
"""The runtime of Wasm filters that are part of Istio's Envoy."""


def private_parts(value: Value, path: FieldPath) -> Iterator[tuple[FieldPath, str]]:
    """Yield the paths in a value at which something is named that only Istio's Envoy has."""
    if isinstance(value, dict):
        for key, each in value.items():
            if key in ("@type", "type_url", "typeUrl") and isinstance(each, str):
                name = type_in(each)
                if name in _TYPES or name.startswith(_PREFIXES):
                    yield (*path, key), name
            elif key == "runtime" and each == _COMPILED_IN:
                yield (*path, key), _COMPILED_IN
            else:
                yield from private_parts(each, (*path, key))
    elif isinstance(value, list):
        for index, each in enumerate(value):
            yield from private_parts(each, (*path, index))


def has_private_parts(value: Value) -> bool:
    """Return whether a value names what only Istio's Envoy has."""
    return next(private_parts(value, ()), None) is not None
