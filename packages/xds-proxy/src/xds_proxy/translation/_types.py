"""The resource types that differ in what a response or an empty subscription means.

Source: https://www.envoyproxy.io/docs/envoy/latest/api-docs/xds_protocol
"""

from __future__ import annotations

from typing import Final

_PREFIX: Final = "type.googleapis.com/envoy."

CLUSTER: Final = _PREFIX + "config.cluster.v3.Cluster"
ENDPOINT: Final = _PREFIX + "config.endpoint.v3.ClusterLoadAssignment"
LISTENER: Final = _PREFIX + "config.listener.v3.Listener"

FULL_STATE: Final = frozenset({CLUSTER, LISTENER})
"""A state-of-the-world response of these is complete: the client removes what it lacks."""

NAMED_ONLY: Final = frozenset(
    {
        ENDPOINT,
        _PREFIX + "config.route.v3.RouteConfiguration",
        _PREFIX + "config.route.v3.VirtualHost",
        _PREFIX + "extensions.transport_sockets.tls.v3.Secret",
        _PREFIX + "config.core.v3.TypedExtensionConfig",
        _PREFIX + "service.runtime.v3.Runtime",
    }
)
"""Asked for by name always: an empty list of names never means all of these."""


def is_envoys(type_url: str) -> bool:
    """Return whether Envoy defines this type, so that its resources have names."""
    return type_url.startswith(_PREFIX)
