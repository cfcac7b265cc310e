"""Finds DestinationRules, or parts of them, without effect; problems say where in the files.

Each object is valid by itself. There may be no service for its host, or for a port that it names;
an older rule of the same host may come first.
"""

from collections.abc import Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field, replace

from istio_config import ConfigObject
from istio_config.edits import edits
from istio_config.host_patterns import has
from istio_config.kinds.destination_rule import DESTINATION_RULE, DestinationRuleSpec, TrafficPolicy
from mesh_configfile import FieldPath, Problem
from mesh_findings.reachability._by_key import Key, Problems, edited, find_again, regrouped
from mesh_findings.reachability._known_hosts import NO_HOSTS, KnownHosts
from mesh_model import MeshModel, Rule


@dataclass(frozen=True, kw_only=True)
class RuleFindings:
    """The DestinationRules of a mesh, and the problems of those without effect.

    The key of a rule is the namespace and the name of the first of its objects.
    """

    hosts: KnownHosts = NO_HOSTS
    objects: Sequence[ConfigObject] = ()
    rules: Sequence[Rule] = ()
    items: Mapping[Key, ConfigObject] = field(default_factory=dict)
    """The objects by namespace and name."""
    by_item: Mapping[Key, Rule] = field(default_factory=dict)
    """The rules by namespace and name of each of their objects."""
    of_host: Mapping[str, tuple[Key, ...]] = field(default_factory=dict)
    """The rules of each host."""
    wildcards: frozenset[str] = frozenset()
    """The hosts of rules that are wildcards."""
    problems: Problems = field(default_factory=dict)

    def after(self, model: MeshModel, hosts: KnownHosts) -> tuple["RuleFindings", AbstractSet[str]]:
        """Return the findings of a later model, and which hosts are not as they were.

        hosts: of the model's services. Those returned have other services, ports or subsets.
        """
        objects, rules = model.rules.of_kind(DESTINATION_RULE), model.destination_rules.rules
        items, rule_edits = edits(self.objects, objects), edits(self.rules, rules)
        other_hosts = self.hosts.differing(hosts)
        if not items and not rule_edits and not other_hosts:
            return self, frozenset()
        of_host = regrouped(
            self.of_host,
            [(each.host, _key(each)) for each in rule_edits.gone],
            [(each.host, _key(each)) for each in rule_edits.come],
        )
        touched = {each.host for each in (*rule_edits.gone, *rule_edits.come)}
        wildcards = {each for each in touched if each.startswith("*")}
        found = RuleFindings(
            hosts=hosts,
            objects=objects,
            rules=rules,
            items=edited(
                self.items,
                ((each.namespace, each.name) for each in items.gone),
                {(each.namespace, each.name): each for each in items.come},
            ),
            by_item=edited(
                self.by_item,
                ((each.namespace, name) for each in rule_edits.gone for name in each.names),
                {(each.namespace, name): each for each in rule_edits.come for name in each.names},
            ),
            of_host=of_host,
            wildcards=self.wildcards - wildcards | (wildcards & of_host.keys()),
        )
        again = {_key(each) for each in (*rule_edits.gone, *rule_edits.come)}
        again |= {
            _key(found.by_item[each.namespace, each.name])
            for each in items.come
            if (each.namespace, each.name) in found.by_item
        }
        if other_hosts:
            ruled = {*other_hosts, *found.wildcards}
            again.update(key for each in ruled for key in of_host.get(each, ()))
        problems = find_again(self.problems, again, found._problems_of)
        subsets = {each for each in touched if self._subsets(each) != found._subsets(each)}
        return replace(found, problems=problems), subsets | other_hosts

    def have_subset(self, host: str, subset: str) -> bool:
        """Return whether some rule of a host has a subset."""
        return subset in self._subsets(host) or any(
            subset in self._subsets(each) for each in self.wildcards if has(each, host)
        )

    def _subsets(self, host: str) -> AbstractSet[str]:
        rules = [self.by_item[each] for each in self.of_host.get(host, ())]
        if len(rules) == 1:
            return rules[0].subsets.keys()
        return {name for each in rules for name in each.subsets}

    def _problems_of(self, key: Key) -> Iterator[Problem]:
        rule = self.by_item.get(key)
        if rule is None or _key(rule) != key:
            return
        items = [self.items[rule.namespace, name] for name in rule.names]
        if rule.host.startswith("*"):
            if not self.hosts.have_any_of(rule.host):
                for item in items:
                    yield item.problem(
                        ("spec", "host"),
                        f'no service has a host that is one of "{rule.host}": it has no effect',
                        "IST0174",
                    )
        elif rule.host in self.hosts.aliases:
            for item in items:
                yield item.problem(
                    ("spec", "host"),
                    f"{rule.host} stands for {self.hosts.real(rule.host)}, as a service of type "
                    "ExternalName does: it has no effect; name that host",
                )
        elif rule.host not in self.hosts.ports:
            for item in items:
                yield item.problem(
                    ("spec", "host"),
                    f"there is no service {rule.host}: it has no effect",
                    "IST0174",
                )
        else:
            yield from _unknown_ports(rule, items, self.hosts.ports[rule.host])
        yield from _of_others(items)


def _key(rule: Rule) -> Key:
    return rule.namespace, rule.names[0]


def _unknown_ports(
    rule: Rule, items: list[ConfigObject], ports: AbstractSet[int]
) -> Iterator[Problem]:
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
