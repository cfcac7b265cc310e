"""Whether anything in a mesh depends on where proxies run: their locality, network or node.

If nothing does, they share what they are sent. It is told for the whole mesh at once; which
services it is about is found out as they are needed (`plan/_locality`).
"""

from collections.abc import Iterable

from mesh_discovery.config.kinds.mesh_config._spec import MeshConfigSpec
from mesh_discovery.model._destination_rules import DestinationRules
from mesh_discovery.model._services import Service


def uses_places(rules: DestinationRules, mesh: MeshConfigSpec, services: Iterable[Service]) -> bool:
    """Tell whether the endpoints of some service depend on where a proxy runs."""
    if mesh.locality_lb_setting.distribute:
        return True
    default = mesh.default_traffic_policy
    if default is not None and default.outlier_detection is not None:
        return True
    for policy in rules.policies:
        balancer = policy.load_balancer
        if policy.outlier_detection is not None or (
            balancer is not None
            and (balancer.locality_lb_setting or balancer.zone_aware_lb_setting) is not None
        ):
            return True
    return any(each.traffic_distribution or each.is_node_local for each in services)


def uses_nodes(services: Iterable[Service]) -> bool:
    """Tell whether the endpoints of some service depend on the node that a proxy runs on."""
    return any(
        each.is_node_local or each.traffic_distribution == "PreferSameNode" for each in services
    )


def locality_labels(rules: DestinationRules, mesh: MeshConfigSpec) -> frozenset[str]:
    """Return the keys of the labels by which endpoints take over from each other."""
    labels = list(mesh.locality_lb_setting.failover_priority)
    for policy in rules.policies:
        balancer = policy.load_balancer
        if balancer is None:
            continue
        if balancer.locality_lb_setting is not None:
            labels += balancer.locality_lb_setting.failover_priority
        if balancer.zone_aware_lb_setting is not None:
            labels += balancer.zone_aware_lb_setting.failover_priority
    return frozenset(each.partition("=")[0] for each in labels)
