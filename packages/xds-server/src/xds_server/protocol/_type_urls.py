"""Facts about the resource types: their URLs and how each behaves on the wire.

Sources: the xDS protocol (https://www.envoyproxy.io/docs/envoy/latest/api-docs/xds_protocol),
and Istio's additions for the types of its own.
"""

from __future__ import annotations

from collections.abc import Collection
from functools import lru_cache
from typing import Final

_PREFIX = "type.googleapis.com/"

CLUSTER: Final = _PREFIX + "envoy.config.cluster.v3.Cluster"
ENDPOINT: Final = _PREFIX + "envoy.config.endpoint.v3.ClusterLoadAssignment"
LISTENER: Final = _PREFIX + "envoy.config.listener.v3.Listener"
ROUTE: Final = _PREFIX + "envoy.config.route.v3.RouteConfiguration"
SCOPED_ROUTE: Final = _PREFIX + "envoy.config.route.v3.ScopedRouteConfiguration"
VIRTUAL_HOST: Final = _PREFIX + "envoy.config.route.v3.VirtualHost"
SECRET: Final = _PREFIX + "envoy.extensions.transport_sockets.tls.v3.Secret"
RUNTIME: Final = _PREFIX + "envoy.service.runtime.v3.Runtime"
EXTENSION_CONFIG: Final = _PREFIX + "envoy.config.core.v3.TypedExtensionConfig"
RESOURCE_WRAPPER: Final = _PREFIX + "envoy.service.discovery.v3.Resource"

NAMED_ONLY: Final = frozenset(
    {ENDPOINT, ROUTE, SECRET, EXTENSION_CONFIG, VIRTUAL_HOST, RUNTIME},
)
"""Types that a client always asks for by name: an empty list of names never means "all"."""

FULL_STATE: Final = frozenset({CLUSTER, LISTENER})
"""Types of which a state-of-the-world response is complete: a client removes what it lacks."""

ABSENCE_NOT_SENT: Final = frozenset({ROUTE, SECRET, RUNTIME})
"""Types of which a server does not say to a delta client that a name does not exist.

Envoy (1.40) takes that for an answer about a route, stops its timer and waits on; it refuses a
response with any number of runtime layers but one; and a secret that is missing may still come.
"""

REFER_TO_NOTHING: Final = frozenset({ENDPOINT, SECRET, RUNTIME})
"""Types whose resources refer to no others, so that their changes may overtake other changes."""

PUSH_ORDER: Final = (CLUSTER, ENDPOINT, LISTENER, SCOPED_ROUTE, ROUTE, VIRTUAL_HOST, SECRET)
"""Make before break: each type comes before the types that refer to it."""

SHORT_NAMES: Final = {
    CLUSTER: "cds",
    ENDPOINT: "eds",
    LISTENER: "lds",
    ROUTE: "rds",
    SCOPED_ROUTE: "srds",
    VIRTUAL_HOST: "vhds",
    SECRET: "sds",
    RUNTIME: "rtds",
    EXTENSION_CONFIG: "ecds",
    _PREFIX + "istio.networking.nds.v1.NameTable": "nds",
    _PREFIX + "istio.mesh.v1alpha1.ProxyConfig": "pcds",
}


def short_name(type_url: str) -> str:
    """Return the name of a type in metrics; unknown types share one, so that labels stay few."""
    return SHORT_NAMES.get(type_url, "other")


def in_push_order(type_urls: Collection[str]) -> tuple[str, ...]:
    """Return the types in the order in which a push sends them; unknown ones come last, by name."""
    return _in_push_order(tuple(type_urls))


@lru_cache(maxsize=256)  # called in every push to every client
def _in_push_order(type_urls: tuple[str, ...]) -> tuple[str, ...]:
    known = [type_url for type_url in PUSH_ORDER if type_url in type_urls]
    return (*known, *sorted(set(type_urls).difference(PUSH_ORDER)))
