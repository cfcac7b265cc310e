"""The kinds of things that a push request names as changed: the `kind` of its config keys."""

from enum import StrEnum

from mesh_model import RULE_KINDS, WORKLOAD_KINDS


class Changed(StrEnum):
    """A kind of config keys; objects of the other kinds of rules have their kind's name."""

    SERVICE = "ServiceEntry"
    """A service, by host and namespace, whatever objects it is made of."""
    ADDRESS = "Address"
    """An address of a namespace, at which another set of endpoints is served now."""
    PEER_AUTHENTICATION = "PeerAuthentication"
    SECRET = "Secret"  # noqa: S105 - a kind
    SIDECAR = "Sidecar"
    GATEWAY = "Gateway"
    VIRTUAL_SERVICE = "VirtualService"
    ENVOY_FILTER = "EnvoyFilter"
    RULED_HOST = "RuledHost"
    """A host that may have another DestinationRule now."""
    CONNECTIONS = "Connections"
    """Rules that listeners have for connections changed."""
    PATCHED_LISTENERS = "PatchedListeners"
    PATCHED_CLUSTERS = "PatchedClusters"
    PATCHED_ROUTES = "PatchedRoutes"
    PATCHED_EXTENSIONS = "PatchedExtensions"


OF_RULES = frozenset(kind.name for kind in RULE_KINDS)
"""Kinds of rules about traffic."""
OF_WORKLOADS = frozenset(kind.name for kind in WORKLOAD_KINDS)
"""Kinds of which each object concerns the proxies of some workloads."""
OF_PATCHES = frozenset(
    {
        Changed.PATCHED_LISTENERS,
        Changed.PATCHED_CLUSTERS,
        Changed.PATCHED_ROUTES,
        Changed.PATCHED_EXTENSIONS,
    }
)
"""The parts of a proxy's configuration that EnvoyFilters patch."""
