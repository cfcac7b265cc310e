"""EnvoyFilter: patches of the configuration of some proxies, in terms of Envoy's own API."""

from istio_config.kinds.envoy_filter._kind import ENVOY_FILTER, EnvoyFilterSpec
from istio_config.kinds.envoy_filter._matches import (
    ClusterMatch,
    Context,
    FilterChainMatch,
    FilterMatch,
    ListenerMatch,
    ObjectMatch,
    ProxyMatch,
    RouteAction,
    RouteConfigurationMatch,
    RouteMatch,
    VirtualHostMatch,
)
from istio_config.kinds.envoy_filter._matches_rules import MOST_VERSION_BYTES
from istio_config.kinds.envoy_filter._patches import (
    OF_LISTENERS,
    OF_ROUTES,
    OPERATIONS,
    ApplyTo,
    ConfigPatch,
    Operation,
)
from istio_config.kinds.envoy_filter._private_filters import has_private_parts

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
