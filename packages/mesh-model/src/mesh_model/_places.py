"""Whether anything in a mesh depends on where proxies run: their locality, network or node.

If nothing does, they share what they are sent. It is told for the whole mesh at once; which
services it is about is found out as they are needed (`plan/_locality`).
"""

from collections.abc import Iterable

from istio_config.kinds.mesh_config import MeshConfigSpec
from mesh_model._destination_rules import DestinationRules
from mesh_model._services import Service


def rules_use_places(rules: DestinationRules, mesh: MeshConfigSpec) -> bool:
    """Return whether rules make the endpoints of some service depend on where a proxy runs."""
    if mesh.locality_lb_setting.distribute:
        return True
    default = mesh.default_traffic_policy
    if default is not None and default.outlier_detection is not None:
        return True
    return rules.depend_on_place


def services_use_places(services: Iterable[Service]) -> bool:
    """Return whether some service itself says that its endpoints depend on where a proxy runs."""
    return any(each.traffic_distribution or each.is_node_local for each in services)


def uses_nodes(services: Iterable[Service]) -> bool:
    """Return whether the endpoints of some service depend on the node that a proxy runs on."""
    return any(
        each.is_node_local or each.traffic_distribution == "PreferSameNode" for each in services
    )


def locality_labels(mesh: MeshConfigSpec) -> frozenset[str]:
    """Return the keys of the labels by which endpoints take over from each other in all rules."""
    labels = mesh.locality_lb_setting.failover_priority
    return frozenset(each.partition("=")[0] for each in labels)
