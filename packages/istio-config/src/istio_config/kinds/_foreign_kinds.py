"""The kinds of a cluster's objects that mean nothing to a mesh.

A dump of a cluster has Deployments and ConfigMaps beside what is read, and they are no mistake.
"""

FOREIGN = "means nothing to a mesh: let pass"
"""The end of the note of such a kind."""

_CORE = frozenset(
    {
        "Binding",
        "ConfigMap",
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
_OF_ISTIO = ".istio.io"
_READ_GROUPS = frozenset({"gateway.networking.k8s.io", "discovery.k8s.io"})
_BUILT_IN = frozenset({"apps", "autoscaling", "batch", "extensions", "policy"})
_CERTAIN_NAMES = frozenset({"Service"})
"""Names that other groups give to kinds of their own, as Knative does."""


def is_foreign_kind(group: str, name: str, *, known: frozenset[str]) -> bool:
    """Return whether objects of this kind are none of a mesh's.

    known: the names of kinds that are a mesh's; one in another group is taken for a mistake.
    """
    if not group:
        return name in _CORE
    if group.endswith(_OF_ISTIO) or group in _READ_GROUPS:
        return False
    if group not in _BUILT_IN and "." not in group:
        return False
    return name not in known or name in _CERTAIN_NAMES
