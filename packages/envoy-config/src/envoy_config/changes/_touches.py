"""The table of what a change can touch: by it proxies are pushed to, and caches keep values.

A row says of which types the resources may be others after an object of a kind was edited, came or
went: in doubt more types. It saves work alone: resources that are generated again are compared with
those that a proxy has, and sent only where they differ.
"""

from collections.abc import Iterable, Mapping
from enum import StrEnum
from typing import NamedTuple

from envoy_config.plan._proxy import Proxy
from istio_config.kinds.envoy_filter import OF_LISTENERS, OF_ROUTES, ApplyTo
from mesh_model import WORKLOAD_KINDS


class Part(StrEnum):
    """A type of resources."""

    CLUSTERS = "clusters"
    ENDPOINTS = "endpoints"
    LISTENERS = "listeners"
    ROUTES = "routes"
    NAMES = "names"
    """The name table of an agent that answers DNS: which services a proxy knows."""
    SECRETS = "secrets"
    EXTENSIONS = "extensions"
    PROXY_CONFIG = "proxy config"
    """The trust bundle, and how the proxy is to be started: for its agent."""


class Changed(StrEnum):
    """A kind of things that a push request names as changed: the `kind` of its config keys.

    Objects have their own kind's name; what an edit of them leads to has kinds besides.
    """

    SERVICE = "ServiceEntry"
    """A service, by host and namespace, whatever objects it is built from."""
    ADDRESS = "Address"
    """An address of a namespace, at which another set of endpoints is served now."""
    PEER_AUTHENTICATION = "PeerAuthentication"
    SECRET = "Secret"  # noqa: S105 - a kind
    SIDECAR = "Sidecar"
    GATEWAY = "Gateway"
    DESTINATION_RULE = "DestinationRule"
    VIRTUAL_SERVICE = "VirtualService"
    AUTHORIZATION_POLICY = "AuthorizationPolicy"
    REQUEST_AUTHENTICATION = "RequestAuthentication"
    TELEMETRY = "Telemetry"
    TRAFFIC_EXTENSION = "TrafficExtension"
    WASM_PLUGIN = "WasmPlugin"
    ENVOY_FILTER = "EnvoyFilter"
    PROXY_CONFIG = "ProxyConfig"
    RULED_HOST = "RuledHost"
    """A host that may have another DestinationRule now."""
    CONNECTIONS = "Connections"
    """Rules that listeners have for connections changed."""
    PATCHED_LISTENERS = "PatchedListeners"
    PATCHED_CLUSTERS = "PatchedClusters"
    PATCHED_ROUTES = "PatchedRoutes"
    PATCHED_EXTENSIONS = "PatchedExtensions"
    TRUST_BUNDLE = "TrustBundle"


BY_HOST = frozenset({Changed.SERVICE, Changed.RULED_HOST})
"""Kinds whose keys name a host: of clusters and endpoints they touch only those of it."""
OF_WORKLOADS = frozenset(kind.name for kind in WORKLOAD_KINDS)
"""Kinds of which each object concerns the proxies of some workloads."""
OF_PATCHES: Mapping[Changed, frozenset[ApplyTo]] = {
    # There are routes in listeners.
    Changed.PATCHED_LISTENERS: OF_LISTENERS | OF_ROUTES,
    Changed.PATCHED_CLUSTERS: frozenset({ApplyTo.CLUSTER}),
    Changed.PATCHED_ROUTES: OF_ROUTES,
    Changed.PATCHED_EXTENSIONS: frozenset({ApplyTo.EXTENSION_CONFIG}),
}
"""The parts of a proxy's configuration that EnvoyFilters patch, by what these apply to."""

_C, _E, _L, _R, _N, _S, _X, _P = (frozenset({each}) for each in Part)
_NONE: frozenset[Part] = frozenset()


class Touches(NamedTuple):
    """The types of resources that a change can touch, by the sort of proxy."""

    sidecars: frozenset[Part] = _NONE
    routers: frozenset[Part] = _NONE
    proxyless: frozenset[Part] = _NONE
    importing: frozenset[Part] = _NONE
    """Beside these, of proxies that know only what a Sidecar imports."""

    def for_proxy(self, proxy: Proxy) -> frozenset[Part]:
        """Return the types of a proxy, but for what a Sidecar imports."""
        if proxy.is_proxyless:
            return self.proxyless
        return self.sidecars if proxy.is_sidecar else self.routers

    @classmethod
    def union(cls, rows: Iterable["Touches"]) -> "Touches":
        """Return what several changes can touch together."""
        columns = zip(*rows, strict=True)
        return cls(*(_NONE.union(*column) for column in columns))


def _of_envoys(parts: frozenset[Part], proxyless: frozenset[Part] = _NONE) -> Touches:
    return Touches(sidecars=parts, routers=parts, proxyless=proxyless)


EVERYTHING = _of_envoys(frozenset(Part), frozenset(Part))
_SERVICES = _of_envoys(_C | _E | _L | _R | _N, _C | _E | _L | _R)
ENDPOINTS_ALONE = _of_envoys(_E | _N, _C | _E)
"""The row of a service of which nothing but endpoints changed."""

# fmt: off
TOUCHES: Mapping[str, Touches] = {
    Changed.SERVICE: _SERVICES,
    # Of the proxies that have the address.
    Changed.ADDRESS: _of_envoys(_C | _L | _N, _L),
    # As clients, all proxies learn from it which endpoints take mutual TLS (`plan/_auto_mtls`).
    Changed.PEER_AUTHENTICATION: _of_envoys(_C | _E | _L, _C | _E | _L),
    Changed.SIDECAR: _SERVICES,
    Changed.GATEWAY: Touches(routers=_C | _L | _R),
    # A Sidecar imports the services that a VirtualService leads to. For connections: see below.
    Changed.VIRTUAL_SERVICE: _of_envoys(_R, _L | _R)._replace(importing=_C | _N),
    Changed.DESTINATION_RULE: _of_envoys(_R, _L | _R),
    Changed.RULED_HOST: _of_envoys(_C | _E, _C | _E),
    Changed.CONNECTIONS: _of_envoys(_L),
    Changed.AUTHORIZATION_POLICY: _of_envoys(_L, _L),
    Changed.REQUEST_AUTHENTICATION: _of_envoys(_L, _L),
    Changed.TELEMETRY: _of_envoys(_L, _L),
    Changed.TRAFFIC_EXTENSION: _of_envoys(_L | _X),
    Changed.WASM_PLUGIN: _of_envoys(_L | _X),
    Changed.PROXY_CONFIG: _of_envoys(_P, _P),
    Changed.ENVOY_FILTER: Touches(),  # what it patches is said besides
    Changed.PATCHED_LISTENERS: _of_envoys(_L),
    # Envoy asks again for the endpoints of a cluster that was changed.
    Changed.PATCHED_CLUSTERS: _of_envoys(_C | _E),
    Changed.PATCHED_ROUTES: _of_envoys(_R),
    Changed.PATCHED_EXTENSIONS: _of_envoys(_X),
    Changed.SECRET: _of_envoys(_S | _X),  # one may be of the registry of a Wasm module
    "ConfigMap": _of_envoys(_S),
    "WorkloadGroup": _of_envoys(_S),  # its account may be that of routers, which get Secrets by it
    Changed.TRUST_BUNDLE: _of_envoys(_P, _P),
    # Kinds that services are built from; a push names the services.
    **dict.fromkeys(
        ("Endpoints", "EndpointSlice", "Service", "Pod", "Node", "WorkloadEntry"), _SERVICES
    ),
    # Kinds that are translated; a push names the rules that they are translated to.
    **dict.fromkeys(
        ("GatewayClass", "GRPCRoute", "HTTPRoute", "ReferenceGrant", "TCPRoute", "TLSRoute"),
        _SERVICES,
    ),
    **dict.fromkeys(("BackendTLSPolicy", "Ingress", "IngressClass", "ListenerSet"), _SERVICES),
    **dict.fromkeys(("MeshConfig", "MeshNetworks", "Namespace"), EVERYTHING),
}
"""By the kind of an object, or of what a push names; any other kind may touch everything."""
# fmt: on
