"""Finds what DestinationRules say and comes to nothing, with the place in the files.

Each object is valid by itself. There may be no service for its host, or for a port that it names;
an older rule of the same host may come first.
"""

from collections.abc import Iterator, Mapping

from mesh_configfile import FieldPath, Problem
from mesh_discovery.config._objects import ConfigObject
from mesh_discovery.config.kinds.destination_rule._kind import DESTINATION_RULE
from mesh_discovery.config.kinds.destination_rule._spec import DestinationRuleSpec, TrafficPolicy
from mesh_discovery.model._destination_rules import Rule
from mesh_discovery.model._host_index import HostIndex
from mesh_discovery.model._model import MeshModel
from mesh_discovery.model._services import Service


def unused_rules(model: MeshModel) -> Iterator[Problem]:
    """Yield a problem for each part of a DestinationRule that comes to nothing."""
    items = {(each.namespace, each.name): each for each in model.rules.of_kind(DESTINATION_RULE)}
    if not items:
        return
    services: dict[str, list[Service]] = {}
    for service in model.services:
        services.setdefault(service.host, []).append(service)
    reached = _reached_wildcards(model, services)
    for rule in model.destination_rules.rules:
        found = [items[rule.namespace, name] for name in rule.names]
        if rule.host.startswith("*"):
            if rule.host not in reached:
                for item in found:
                    yield item.problem(
                        ("spec", "host"),
                        f'no service has a host that is one of "{rule.host}": it has no effect',
                    )
        elif rule.host not in services:
            for item in found:
                yield item.problem(
                    ("spec", "host"), f"there is no service {rule.host}: it has no effect"
                )
        else:
            ports = {port.number for each in services[rule.host] for port in each.ports}
            yield from _unknown_ports(rule, found, ports)
        yield from _of_others(found)


def same_rules(old: MeshModel, new: MeshModel) -> bool:
    """Tell whether `unused_rules` finds the same in both, if their services are the same."""
    return old.destination_rules is new.destination_rules


def _reached_wildcards(model: MeshModel, services: Mapping[str, object]) -> frozenset[str]:
    """Return the wildcard hosts of rules that some service has."""
    hosts = {each.host for each in model.destination_rules.rules if each.host.startswith("*")}
    if not hosts:
        return frozenset()
    index = HostIndex((each, each) for each in sorted(hosts))
    return frozenset(each for host in services for found in index.matching(host) for each in found)


def _unknown_ports(rule: Rule, items: list[ConfigObject], ports: set[int]) -> Iterator[Problem]:
    for item in items:
        for path, policy in _policies(item):
            for index, each in enumerate(policy.port_level_settings):
                number = each.port.number if each.port is not None else None
                if number is not None and number not in ports:
                    listed = ", ".join(map(str, sorted(ports))) or "none"
                    yield item.problem(
                        (*path, "portLevelSettings", index, "port", "number"),
                        f"the service {rule.host} has no port {number}: its ports are {listed}",
                    )


def _of_others(items: list[ConfigObject]) -> Iterator[Problem]:
    """Yield what is in an earlier rule of the host too, which counts."""
    policy: ConfigObject | None = None
    subsets: dict[str, ConfigObject] = {}
    for item in items:
        spec = item.spec
        if not isinstance(spec, DestinationRuleSpec):
            continue
        if spec.traffic_policy is not None:
            if policy is not None:
                yield item.problem(
                    ("spec", "trafficPolicy"),
                    f"DestinationRule {policy.namespace}/{policy.name} has one for the same host, "
                    "and comes first: this one has no effect",
                )
            policy = policy or item
        for index, subset in enumerate(spec.subsets):
            first = subsets.setdefault(subset.name, item)
            if first is not item:
                yield item.problem(
                    ("spec", "subsets", index),
                    f"DestinationRule {first.namespace}/{first.name} has a subset {subset.name} "
                    "for the same host, and comes first: this one has no effect",
                )


def _policies(item: ConfigObject) -> Iterator[tuple[FieldPath, TrafficPolicy]]:
    spec = item.spec
    if not isinstance(spec, DestinationRuleSpec):
        return
    if spec.traffic_policy is not None:
        yield ("spec", "trafficPolicy"), spec.traffic_policy
    for index, subset in enumerate(spec.subsets):
        if subset.traffic_policy is not None:
            yield ("spec", "subsets", index, "trafficPolicy"), subset.traffic_policy
