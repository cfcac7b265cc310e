"""The part of what proxies have that a change of rules can touch: told from the rules alone."""

from collections.abc import Collection, Iterable

from envoy_config.changes._rule_change import rule_change
from istio_config import ConfigObject
from istio_config.kinds.destination_rule import (
    DestinationRuleSpec,
    PortTrafficPolicy,
    TrafficPolicy,
)
from istio_config.kinds.envoy_filter import ENVOY_FILTER, ApplyTo
from istio_config.kinds.gateway import TlsMode
from istio_config.kinds.virtual_service import VirtualServiceSpec
from mesh_model import Differing, Gateways, MeshModel, RuleName


def ruled_hosts(old: MeshModel, new: MeshModel) -> frozenset[str]:
    """Return the hosts that may have another DestinationRule in another model."""
    change = rule_change(old.destination_rules, new.destination_rules)
    if not change.suffixes:
        return change.hosts
    services = (service for model in (old, new) for service in model.services)
    return change.hosts | {each.host for each in services if change.touches(each.host)}


def touches_connections(changes: Collection[Differing], gateways: Gateways) -> bool:
    """Return whether rules changed that listeners have, for connections that are not HTTP.

    A router that passes on the mesh's TLS has a filter chain for each subset of a service.
    """
    if any(
        each is not None and _of_connections(each.spec) for change in changes for each in change
    ):
        return True
    return any(_subsets(old) != _subsets(new) for old, new in changes) and any(
        server.tls is not None and server.tls.mode is TlsMode.AUTO_PASSTHROUGH
        for gateway in gateways.gateways
        for server in gateway.spec.servers
    )


def _subsets(item: ConfigObject | None) -> frozenset[tuple[str, str]]:
    spec = item.spec if item is not None else None
    if not isinstance(spec, DestinationRuleSpec):
        return frozenset()
    return frozenset((spec.host, each.name) for each in spec.subsets)


def patched_objects(
    old: MeshModel, new: MeshModel, changed: Iterable[RuleName]
) -> frozenset[ApplyTo]:
    """Return the objects that EnvoyFilters among changed rules patch, or patched before."""
    names = frozenset(each for each in changed if each[0] == ENVOY_FILTER.name)
    if not names:
        return frozenset()
    rules = (
        rule
        for model in (old, new)
        for rule in model.workload_rules.of_kind(ENVOY_FILTER)
        if (ENVOY_FILTER.name, rule.namespace, rule.name) in names
    )
    return frozenset(each.apply_to for rule in rules for each in rule.spec.config_patches)


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
