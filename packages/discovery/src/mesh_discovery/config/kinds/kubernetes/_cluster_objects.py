"""Kubernetes' Namespace and Node, of which labels matter alone: networks and localities.

Source: Kubernetes' API, v1.
"""

from mesh_discovery.config.kinds._kind import Kind
from mesh_discovery.config.kinds.kubernetes._kubernetes_fields import NoFields


class NamespaceFields(NoFields, frozen=True):
    """The spec of a namespace."""


class NodeFields(NoFields, frozen=True):
    """The spec of a node."""


NAMESPACE = Kind(name="Namespace", group="", versions=("v1",), spec=NamespaceFields)
NODE = Kind(name="Node", group="", versions=("v1",), spec=NodeFields)
