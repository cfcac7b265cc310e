"""Patches of the configuration that proxies are sent, in terms of Envoy's own API."""

from istio_config.kinds.envoy_filter._kind import ENVOY_FILTER
from istio_config.kinds.envoy_filter._mistakes import (
    MOST_VERSION_BYTES,
    OF_LISTENERS,
    OF_ROUTES,
    OPERATIONS,
)
from istio_config.kinds.envoy_filter._private_filters import has_private_parts
from istio_config.kinds.envoy_filter._spec import (
    ApplyTo,
    ClusterMatch,
    ConfigPatch,
    Context,
    EnvoyFilterSpec,
    FilterChainMatch,
    FilterMatch,
    ListenerMatch,
    ObjectMatch,
    Operation,
    ProxyMatch,
    RouteAction,
    RouteConfigurationMatch,
    RouteMatch,
    VirtualHostMatch,
)

__all__ = [
    "OPERATIONS",
    "ApplyTo",
    "ClusterMatch",
    "ConfigPatch",
    "Context",
    "ENVOY_FILTER",
    "EnvoyFilterSpec",
    "FilterChainMatch",
    "FilterMatch",
    "ListenerMatch",
    "MOST_VERSION_BYTES",
    "OF_LISTENERS",
    "OF_ROUTES",
    "ObjectMatch",
    "Operation",
    "ProxyMatch",
    "RouteAction",
    "RouteConfigurationMatch",
    "RouteMatch",
    "VirtualHostMatch",
    "has_private_parts",
]
