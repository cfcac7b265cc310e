"""The part of what proxies have that a change of rules can touch: told from the rules alone."""

from collections.abc import Iterable

from mesh_discovery.config.kinds.destination_rule._spec import (
    DestinationRuleSpec,
    PortTrafficPolicy,
    TrafficPolicy,
)
from mesh_discovery.config.kinds.virtual_service._spec import VirtualServiceSpec
from mesh_discovery.model._model import MeshModel
from mesh_discovery.model._rule_objects import Differing
from mesh_discovery.push.clients._rule_change import rule_change


def ruled_hosts(old: MeshModel, new: MeshModel) -> frozenset[str]:
    """Return the hosts that may have another DestinationRule in another model."""
    change = rule_change(old.destination_rules, new.destination_rules)
    if not change.suffixes:
        return change.hosts
    services = (service for model in (old, new) for service in model.services)
    return change.hosts | {each.host for each in services if change.touches(each.host)}


def touches_connections(changes: Iterable[Differing]) -> bool:
    """Tell whether rules changed that listeners have, for connections that are not HTTP."""
    return any(
        each is not None and _of_connections(each.spec) for change in changes for each in change
    )


def _of_connections(spec: object) -> bool:
    if isinstance(spec, VirtualServiceSpec):
        return bool(spec.tls or spec.tcp)
    if isinstance(spec, DestinationRuleSpec):
        return any(map(_has_connection_settings, _policies(spec)))
    return False


def _policies(spec: DestinationRuleSpec) -> Iterable[TrafficPolicy | PortTrafficPolicy]:
    for policy in (spec.traffic_policy, *(each.traffic_policy for each in spec.subsets)):
        if policy is not None:
            yield policy
            yield from policy.port_level_settings


def _has_connection_settings(policy: TrafficPolicy | PortTrafficPolicy) -> bool:
    pool, balancer = policy.connection_pool, policy.load_balancer
    if pool is not None and pool.tcp is not None:
        return True
    if balancer is not None and balancer.consistent_hash is not None:
        return True
    return isinstance(policy, TrafficPolicy) and policy.tunnel is not None
