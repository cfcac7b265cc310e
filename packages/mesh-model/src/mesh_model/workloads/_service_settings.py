"""The settings of a mesh that every service is built with, beside its own objects."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from istio_config import ConfigObject
from mesh_model._networks import CLUSTER, Networks
from mesh_model._visibility import HostOwners

EndpointKey = tuple[str, str, str]
"""Namespace, service account and address of an endpoint."""

LOCALITY_LABEL = "istio-locality"

_REGION = ("topology.kubernetes.io/region", "failure-domain.beta.kubernetes.io/region")
_ZONE = ("topology.kubernetes.io/zone", "failure-domain.beta.kubernetes.io/zone")
_SUBZONE = ("topology.istio.io/subzone",)


@dataclass(frozen=True, slots=True, kw_only=True)
class ServiceSettings:
    """The settings on which every service depends; compared by value."""

    export_to: tuple[str, ...]
    """Of services that say nothing of it."""
    domain: str
    """The DNS suffix of the hosts of Kubernetes services."""
    networks: Networks
    cluster_networks: Mapping[str, str]
    """The network of the pods that name none, by cluster."""
    localities: Mapping[tuple[str, str], str]
    """The localities of Kubernetes nodes, by cluster and name."""

    owners: HostOwners

    reports: Mapping[EndpointKey, bool] = field(compare=False)
    """Whether the application of an endpoint is healthy, where its own proxy has reported.

    Not compared: a change concerns the services with that endpoint, and no others.
    """

    def network_of_pod(self, address: str, given: str = "", *, cluster: str = "") -> str:
        """Return the network of an endpoint in a cluster; given: the value of its label.

        cluster: empty for the only one.
        """
        return self.networks.network_of(
            address,
            given or self.cluster_networks.get(cluster, ""),
            cluster=cluster or CLUSTER,
        )


def node_localities(nodes: Sequence[ConfigObject]) -> Mapping[tuple[str, str], str]:
    """Return the locality of each node that has one in its labels."""
    found = {(each.origin.cluster, each.name): _node_locality(dict(each.labels)) for each in nodes}
    return {node: locality for node, locality in found.items() if locality}


def _node_locality(labels: Mapping[str, str]) -> str:
    parts = [_first(labels, keys) for keys in (_REGION, _ZONE, _SUBZONE)]
    return "/".join(parts).rstrip("/") if any(parts) else ""


def _first(labels: Mapping[str, str], keys: tuple[str, ...]) -> str:
    return next((labels[key] for key in keys if labels.get(key)), "")


def label_locality(labels: Mapping[str, str]) -> str:
    """Return the locality that a workload's own label says; labels can't have slashes."""
    text = labels.get(LOCALITY_LABEL, "")
    return text if "/" in text else text.replace(".", "/")
