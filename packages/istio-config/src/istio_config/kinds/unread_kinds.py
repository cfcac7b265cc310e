"""The kinds that are not read: those that mean nothing to a mesh, and those that are let pass.

A dump of a cluster has Deployments and Events beside what is read, and they are no mistake.

Source: Istio's API reference, with the kinds of the Kubernetes Gateway API that Istio reads.
"""

from mesh_configfile import Value

FOREIGN = "means nothing to a mesh: let pass"
"""The end of the note of such a kind."""

_CORE = frozenset(
    {
        "Binding",
        "Event",
        "LimitRange",
        "PersistentVolume",
        "PersistentVolumeClaim",
        "PodTemplate",
        "ReplicationController",
        "ResourceQuota",
        "ServiceAccount",
    }
)
OF_ISTIO = ".istio.io"
"""The end of the groups of Istio's own kinds."""
_READ_GROUPS = frozenset({"gateway.networking.k8s.io", "discovery.k8s.io"})
_BUILT_IN = frozenset({"apps", "autoscaling", "batch", "extensions", "policy"})
_OF_INGRESS = frozenset({"extensions", "networking.k8s.io"})
"""The groups of Kubernetes' Ingress, of today and before."""
_CERTAIN_NAMES = frozenset({"Ingress", "Service"})
"""Names that other groups give to kinds of their own, as Knative does."""


def is_foreign_kind(group: str, name: str, *, known: frozenset[str]) -> bool:
    """Return whether objects of this kind mean nothing to a mesh.

    known: the names of the kinds of a mesh; with another group, one of them is taken for a mistake.
    """
    if not group:
        return name in _CORE
    if group.endswith(OF_ISTIO) or group in _READ_GROUPS:
        return False
    if group not in _BUILT_IN and "." not in group:
        return False
    return name not in known or (name in _CERTAIN_NAMES and group not in _OF_INGRESS)


_GATEWAY_API = "gateway.networking.k8s.io"

_UNSERVED = {
    (_GATEWAY_API, "UDPRoute"): "UDPRoute is a kind that Istio does not serve either",
    ("install.istio.io", "IstioOperator"): (
        "IstioOperator is for the installation of Istio; its spec.meshConfig is read from the file "
        "that --mesh-config names"
    ),
}


def unserved_kind(api_version: Value, kind: Value) -> str:
    """Return what is said of a kind that is let pass as in Istio; "" for all others."""
    group = api_version.rpartition("/")[0] if isinstance(api_version, str) else ""
    said = _UNSERVED.get((group, kind)) if isinstance(kind, str) else None
    return f"{said}: let pass" if said is not None else ""
