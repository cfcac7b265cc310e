"""Kubernetes' Namespace and Node, of which only metadata is read: networks, localities, hosts.

Source: Kubernetes' API, v1.
"""

from collections.abc import Iterator

from istio_config.addresses import is_host_pattern, is_ip, is_network
from istio_config.kinds.kind import Kind
from istio_config.kinds.kubernetes._kubernetes_fields import NoFields
from istio_config.kinds.metadata import Metadata
from mesh_configfile.shapes import Finding

HOSTS = "mesh-discovery/hosts"
"""The annotation of a Namespace that names its own hosts in a strict mesh, separated by commas."""
ADDRESSES = "mesh-discovery/addresses"
"""The annotation of a Namespace that names its own addresses and ranges, in the same way."""


class NamespaceFields(NoFields, frozen=True):
    """The spec of a namespace."""


class NodeFields(NoFields, frozen=True):
    """The spec of a node."""


def listed(text: str) -> tuple[str, ...]:
    """Return the values of an annotation, which are separated by commas."""
    return tuple(each.strip() for each in text.split(",") if each.strip())


def _mistakes(_spec: NamespaceFields, metadata: Metadata) -> Iterator[Finding]:
    for each in listed(metadata.annotations.get(HOSTS, "")):
        if each != "*" and not is_host_pattern(each):
            yield (
                (),
                f'the annotation {HOSTS}: "{each}" is no host such as shop.example or *.example',
            )
    for each in listed(metadata.annotations.get(ADDRESSES, "")):
        if not (is_ip(each) or is_network(each)):
            yield (
                (),
                f'the annotation {ADDRESSES}: "{each}" is no address or range such as 10.0.0.0/8',
            )


NAMESPACE = Kind(
    name="Namespace",
    group="",
    versions=("v1",),
    spec=NamespaceFields,
    validate=_mistakes,
    is_cluster_scoped=True,
)
NODE = Kind(name="Node", group="", versions=("v1",), spec=NodeFields, is_cluster_scoped=True)
