"""Whether anything in a mesh depends on the location of a proxy: its locality, network or node.

If nothing does, all proxies share their endpoints and clusters. The answer is one for the whole
mesh; `envoy_config/plan/_locality` finds out for each service as it is needed.
"""

from collections.abc import Iterable

from istio_config.kinds.mesh_config import MeshConfigSpec
from mesh_model._destination_rules import DestinationRules
from mesh_model._services import Service


def rules_use_location(rules: DestinationRules, mesh: MeshConfigSpec) -> bool:
    """Return whether rules make the endpoints of some service depend on a proxy's locality."""
    if mesh.locality_lb_setting.distribute:
        return True
    # Envoy fails over between localities only where outlier detection tells it who is unhealthy;
    # so does Istio (pilot/pkg/networking/core/cluster_traffic_policy.go).
    default = mesh.default_traffic_policy
    if default is not None and default.outlier_detection is not None:
        return True
    return rules.depend_on_location


def services_use_location(services: Iterable[Service]) -> bool:
    """Return whether some service's own fields make its endpoints depend on a proxy's location."""
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
