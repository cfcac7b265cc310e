"""DestinationRules: which one a client's namespace has for a service.

The client's own namespace comes first, then the service's, then the root namespace; the first of
them that has a rule for the host ends the search. In each the most specific host counts. Rules of
one host in one namespace are merged: the first policy is that of all, their subsets are united.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import chain
from typing import NamedTuple

import msgspec

from istio_config import ConfigObject
from istio_config.host_patterns import has
from istio_config.kinds.destination_rule import (
    DestinationRuleSpec,
    PortTrafficPolicy,
    SimpleLb,
    Subset,
    TrafficPolicy,
)
from mesh_model._derived import Derived, derive, noted, view
from mesh_model._hosts import HostIndex, full_host
from mesh_model._object_changes import same_spec
from mesh_model._services import Labels, Service

_PRIVATE, _ALL = ".", "*"


@dataclass(frozen=True, kw_only=True)
class Rule:
    """The rules of one host in a namespace, merged. Its hash costs nothing: it stands in keys."""

    namespace: str
    names: tuple[str, ...]
    """Of the objects, in the order in which they count."""
    host: str
    """With its namespace, in small letters; may be a wildcard."""
    spec: DestinationRuleSpec
    export_to: frozenset[str]

    def __hash__(self) -> int:
        """Equal rules have equal names; rules differ in content too seldom to hash that."""
        return hash((self.namespace, self.names))

    @cached_property
    def subsets(self) -> Mapping[str, Subset]:
        """The subsets by name."""
        return {each.name: each for each in self.spec.subsets}

    @property
    def policies(self) -> tuple[TrafficPolicy | PortTrafficPolicy, ...]:
        """All its policies, also those of ports and subsets."""
        given = (self.spec.traffic_policy, *(each.traffic_policy for each in self.spec.subsets))
        whole = [each for each in given if each is not None]
        return (*whole, *(by_port for each in whole for by_port in each.port_level_settings))

    @property
    def selector(self) -> Mapping[str, str]:
        """The labels of the proxies that it is for; empty: all."""
        selector = self.spec.workload_selector
        return selector.match_labels if selector is not None else {}

    @cached_property
    def labels_looked_at(self) -> frozenset[str]:
        """The keys of the proxy labels that decide what the rule means to a proxy."""
        failover = (
            label
            for policy in self.policies
            if (balancer := policy.load_balancer) is not None
            for setting in (balancer.locality_lb_setting, balancer.zone_aware_lb_setting)
            if setting is not None
            for label in setting.failover_priority
        )
        return frozenset(self.selector).union(each.partition("=")[0] for each in failover)

    @cached_property
    def depends_on_location(self) -> bool:
        """Whether endpoints depend on where the client runs."""
        return any(
            policy.outlier_detection is not None
            or (
                (balancer := policy.load_balancer) is not None
                and (balancer.locality_lb_setting or balancer.zone_aware_lb_setting) is not None
            )
            for policy in self.policies
        )

    @cached_property
    def passes_on(self) -> bool:
        """Whether some policy has PASSTHROUGH: connections go to their original destination."""
        return any(
            policy.load_balancer is not None and policy.load_balancer.simple is SimpleLb.PASSTHROUGH
            for policy in self.policies
        )

    def exported_to(self, namespace: str) -> bool:
        """Return whether clients of a namespace may see it."""
        return _ALL in self.export_to or namespace in self.export_to


class RuleSettings(NamedTuple):
    """The settings of a mesh that its rules depend on."""

    domain: str
    """The DNS suffix that completes short names."""
    root_namespace: str
    export_to: tuple[str, ...]
    """Of rules that say nothing of it."""


_Key = tuple[str, str]
"""Namespace and host."""
_Rules = tuple[Rule, ...]
_Derived = Derived[ConfigObject, _Key, _Rules]
_Index = Mapping[str, HostIndex[Rule]]
"""The rules by host, of each namespace."""


class _Indices(NamedTuple):
    """The rules of a mesh as they are looked for."""

    local: _Index
    exported: _Index
    labels: Mapping[_Key, frozenset[str]]
    """The keys of labels that rules look at."""
    located: Mapping[_Key, bool]
    """The rules whose endpoints depend on where the client runs."""
    passing_on: Mapping[_Key, bool]


_NONE = _Indices({}, {}, {}, {}, {})


class DestinationRules:
    """All DestinationRules of a mesh, found by client's namespace and service."""

    def __init__(
        self,
        derived: _Derived,
        settings: RuleSettings,
        before: "DestinationRules | None" = None,
    ) -> None:
        """before: the rules of which some were kept."""
        self.derived = derived
        self._settings = settings
        self.rules = tuple(chain.from_iterable(derived.values.values()))
        """Each once; of a namespace and host in the order in which they count."""
        known = before._indices if before is not None else _NONE
        self._indices: _Indices = _Indices(
            _indexed(known.local, derived, self._is_local),
            _indexed(known.exported, derived, _is_exported),
            noted(derived, _labels_looked_at, known.labels),
            noted(derived, _depend_on_location, known.located),
            noted(derived, _pass_on, known.passing_on),
        )

    def _is_local(self, rule: Rule) -> bool:
        """Return whether the clients of a rule's own namespace find it first."""
        private = rule.export_to == {rule.namespace}
        return rule.exported_to(rule.namespace) and (
            private or rule.namespace != self._settings.root_namespace
        )

    @classmethod
    def build(
        cls,
        objects: Iterable[ConfigObject],
        settings: RuleSettings,
        before: "DestinationRules | None" = None,
    ) -> "DestinationRules":
        """Return the rules of these objects: those before, if nothing of them changed."""
        known = before if before is not None and before._settings == settings else None
        rules = known.derived.values if known is not None else {}
        derived = derive(
            objects,
            lambda each: _key(each, settings.domain),
            lambda key, items: _rules(key, items, settings, rules.get(key, ())),
            settings=settings,
            same=same_spec,
            before=known.derived if known is not None else None,
        )
        return view(lambda derived: cls(derived, settings, known), derived, known)

    def rule_for(self, namespace: str, service: Service, labels: Labels = ()) -> Rule | None:
        """Return the rule by which clients of a namespace, with these labels, reach a service."""
        if not self.rules:
            return None
        found = self._found(namespace, service)
        known = dict(labels)
        last = None
        for rule in found:
            selector = rule.selector
            if not selector:
                last = rule
            elif rule.namespace == namespace and selector.items() <= known.items():
                return rule
        return last

    def credentials_for(self, namespace: str, labels: Labels) -> frozenset[str]:
        """Return the `credentialName`s in the rules for certain workloads of a namespace.

        labels: of a workload; rules for others do not count.
        """
        known = dict(labels).items()
        return frozenset(
            name
            for rule, name in self._credentials
            if rule.namespace == namespace and rule.selector.items() <= known
        )

    def credentials_for_all(self, namespace: str) -> frozenset[str]:
        """Return the `credentialName`s in the rules for all workloads that a namespace may see."""
        return frozenset(
            policy.tls.credential_name
            for rule in self.rules
            if not rule.selector and rule.exported_to(namespace)
            for policy in rule.policies
            if policy.tls is not None and policy.tls.credential_name
        )

    @cached_property
    def _credentials(self) -> tuple[tuple[Rule, str], ...]:
        """The rules for certain workloads, each with the names of credentials in it."""
        return tuple(
            (rule, policy.tls.credential_name)
            for rule in self.rules
            if rule.selector
            for policy in rule.policies
            if policy.tls is not None and policy.tls.credential_name
        )

    @cached_property
    def labels_looked_at(self) -> frozenset[str]:
        """The keys of the labels of proxies that rules look at."""
        return frozenset(chain.from_iterable(self._indices.labels.values()))

    @property
    def depend_on_location(self) -> bool:
        """Whether the endpoints of some rule depend on where the client runs."""
        return bool(self._indices.located)

    def pass_on(self, host: str) -> bool:
        """Return whether connections to a host may go where they were going, by some rule."""
        return any(has(each, host) for _, each in self._indices.passing_on)

    def _found(self, namespace: str, service: Service) -> tuple[Rule, ...]:
        local = self._indices.local.get(namespace)
        if local is not None and (found := local.most_specific(service.host)):
            return found
        for owner in dict.fromkeys((service.namespace, self._settings.root_namespace)):
            exported = self._indices.exported.get(owner)
            if exported is None:
                continue
            # Which host is most specific is decided before who may see it.
            found = tuple(
                each for each in exported.most_specific(service.host) if each.exported_to(namespace)
            )
            if found:
                return found
        return ()


def _indexed(before: _Index, derived: _Derived, has: Callable[[Rule], bool]) -> _Index:
    """Return the indices of namespaces after edits; has: whether a rule is in them."""
    changed: dict[str, dict[str, _Rules]] = {}
    for namespace, host in derived.touched:
        rules = derived.values.get((namespace, host), ())
        changed.setdefault(namespace, {})[host] = tuple(filter(has, rules))
    found = dict(before)
    for namespace, of_hosts in changed.items():
        found[namespace] = found.get(namespace, HostIndex()).edited(of_hosts)
    return found


def _is_exported(rule: Rule) -> bool:
    return rule.export_to != {rule.namespace}


def _labels_looked_at(rules: _Rules) -> frozenset[str]:
    return frozenset(key for each in rules for key in each.labels_looked_at)


def _depend_on_location(rules: _Rules) -> bool:
    return any(each.depends_on_location for each in rules)


def _pass_on(rules: _Rules) -> bool:
    return any(each.passes_on for each in rules)


def _rules(
    key: _Key, objects: Iterable[ConfigObject], settings: RuleSettings, before: _Rules
) -> _Rules:
    """Return the rules of a host in a namespace; one that says what one before said is that one."""
    items = [(each, each.spec) for each in objects if isinstance(each.spec, DestinationRuleSpec)]
    # Those for certain workloads come first; the sort keeps the order otherwise.
    items.sort(key=lambda pair: pair[1].workload_selector is None)
    groups: list[tuple[Mapping[str, str], frozenset[str], list[ConfigObject]]] = []
    for item, spec in items:
        selector, exported = _selector(spec), _exported(item, spec, settings.export_to)
        same = next((g for g in groups if g[0] == selector and g[1] == exported), None)
        if same is None:
            groups.append((selector, exported, [item]))
        else:
            same[2].append(item)
    merged = (_merged(*key, tuple(group), exported) for _, exported, group in groups)
    return tuple(next((old for old in before if old == each), each) for each in merged)


def _key(item: ConfigObject, domain: str) -> _Key | None:
    if not isinstance(item.spec, DestinationRuleSpec):
        return None
    return item.namespace, full_host(item.spec.host, item.namespace, domain)


def _selector(spec: DestinationRuleSpec) -> Mapping[str, str]:
    return spec.workload_selector.match_labels if spec.workload_selector is not None else {}


def _exported(
    item: ConfigObject, spec: DestinationRuleSpec, default: Sequence[str]
) -> frozenset[str]:
    if spec.workload_selector is not None:
        return frozenset({item.namespace})
    values = spec.export_to or default
    return frozenset(item.namespace if each == _PRIVATE else each for each in values)


def _merged(
    namespace: str, host: str, objects: tuple[ConfigObject, ...], export_to: frozenset[str]
) -> Rule:
    specs = [each.spec for each in objects if isinstance(each.spec, DestinationRuleSpec)]
    policies = (each.traffic_policy for each in specs if each.traffic_policy is not None)
    subsets: dict[str, Subset] = {}
    for spec in specs:
        for subset in spec.subsets:
            subsets.setdefault(subset.name, subset)
    return Rule(
        namespace=namespace,
        names=tuple(each.name for each in objects),
        host=host,
        spec=msgspec.structs.replace(
            specs[0],
            traffic_policy=next(policies, None),
            subsets=tuple(subsets.values()),
        ),
        export_to=export_to,
    )


NO_RULES = DestinationRules.build((), RuleSettings(domain="", root_namespace="", export_to=()))
"""Those of a mesh without any."""
