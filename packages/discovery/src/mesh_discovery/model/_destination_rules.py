"""DestinationRules: which one a client's namespace has for a service.

The client's own namespace comes first, then the service's, then the root namespace; the first of
them that has a rule for the host ends the search. In each the most specific host counts. Rules of
one host in one namespace are merged: the first policy is that of all, their subsets are united.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from operator import attrgetter
from typing import NamedTuple

import msgspec

from mesh_discovery._edits import edits
from mesh_discovery._host_patterns import has
from mesh_discovery.config._objects import ConfigObject
from mesh_discovery.config.kinds.destination_rule._load_balancer import SimpleLb
from mesh_discovery.config.kinds.destination_rule._spec import (
    DestinationRuleSpec,
    PortTrafficPolicy,
    Subset,
    TrafficPolicy,
)
from mesh_discovery.model._rule_objects import same_objects
from mesh_discovery.model._services import Labels, Service
from mesh_discovery.model.hosts._host_index import HostIndex
from mesh_discovery.model.hosts._short_names import full_host

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
        """The keys of the labels of proxies on which it depends what it means to them."""
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
    def depends_on_place(self) -> bool:
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
        """Whether some of its connections go where they were going, where that is known."""
        return any(
            policy.load_balancer is not None and policy.load_balancer.simple is SimpleLb.PASSTHROUGH
            for policy in self.policies
        )

    def exported_to(self, namespace: str) -> bool:
        """Tell whether clients of a namespace may see it."""
        return _ALL in self.export_to or namespace in self.export_to


@dataclass(frozen=True, kw_only=True)
class _Made:
    """A rule, and the objects that it was made of."""

    objects: tuple[ConfigObject, ...]
    export_to: frozenset[str]
    rule: Rule


class RuleSettings(NamedTuple):
    """The settings of a mesh that its rules depend on."""

    domain: str
    """The DNS suffix that completes short names."""
    root_namespace: str
    export_to: tuple[str, ...]
    """Of rules that say nothing of it."""


class DestinationRules:
    """All DestinationRules of a mesh, found by client's namespace and service."""

    def __init__(
        self,
        objects: Sequence[ConfigObject],
        settings: "RuleSettings",
        before: "DestinationRules | None" = None,
    ) -> None:
        """objects: oldest first.

        before: the rules before; those that are made of the same objects stay the same.
        """
        self._objects = tuple(objects)
        self._settings = settings
        self._made: Mapping[_Key, _Made]
        self._local: Mapping[str, HostIndex[Rule]]
        self._exported: Mapping[str, HostIndex[Rule]]
        self.rules: tuple[Rule, ...]
        """Each once; of a namespace and host in the order in which they count."""
        edited = self._edited_since(before) if before is not None else None
        if before is None or edited is None:
            self._make_all(before)
        else:
            self._make_edited(before, edited)

    def _make_all(self, before: "DestinationRules | None") -> None:
        self._made = _made(
            self._objects,
            self._settings,
            before._made if before is not None and before._settings == self._settings else {},
        )
        self.rules = tuple(map(_RULE, self._made.values()))
        local: dict[str, list[tuple[str, Rule]]] = {}
        exported: dict[str, list[tuple[str, Rule]]] = {}
        for rule in self.rules:
            if self._is_local(rule):
                local.setdefault(rule.namespace, []).append((rule.host, rule))
            if _is_exported(rule):
                exported.setdefault(rule.namespace, []).append((rule.host, rule))
        self._local = {namespace: HostIndex(found) for namespace, found in local.items()}
        self._exported = {namespace: HostIndex(found) for namespace, found in exported.items()}

    def _edited_since(self, before: "DestinationRules") -> Mapping["_Key", "_Made | None"] | None:
        """Return what is made of the objects that were edited, came or went.

        None if they are many, or if several objects are about one host.
        """
        if before._settings != self._settings:
            return None
        changed = edits(before._objects, self._objects)
        if len(changed.gone) + len(changed.come) > _FEW:
            return None
        domain = self._settings.domain
        gone, come = _by_host(changed.gone, domain), _by_host(changed.come, domain)
        found: dict[_Key, _Made | None] = {}
        for place in gone.keys() | come.keys():
            old, new = gone.get(place, []), come.get(place, [])
            key = *place, 0
            known = before._made.get(key)
            others = known is not None and [*known.objects] != [item for item, _ in old]
            if others or (*place, 1) in before._made or len(new) > 1:
                return None
            found[key] = None
            for item, spec in new:
                exported = _exported(item, spec, self._settings.export_to)
                found[key] = _made_again(key, (item,), exported, known)
        return found

    def _make_edited(self, before: "DestinationRules", edited: "_Edited") -> None:
        made = dict(before._made)
        for key, found in edited.items():
            if found is not None:
                made[key] = found
            else:
                made.pop(key, None)
        self._made = made
        self.rules = tuple(map(_RULE, made.values()))
        self._local = _indexed(before._local, edited, self._is_local)
        self._exported = _indexed(before._exported, edited, _is_exported)
        gone = [before._made[key].rule for key in edited if key in before._made]
        come = [each.rule for each in edited.values() if each is not None]
        known = vars(before)
        if "labels_looked_at" in known and not any(each.labels_looked_at for each in gone):
            labels = before.labels_looked_at.union(*(each.labels_looked_at for each in come))
            self.labels_looked_at = labels
        if "depend_on_place" in known and not any(each.depends_on_place for each in gone):
            depend = before.depend_on_place or any(each.depends_on_place for each in come)
            self.depend_on_place = depend
        if "_passing_on" in known and not any(each.passes_on for each in (*gone, *come)):
            self._passing_on = before._passing_on

    def _is_local(self, rule: Rule) -> bool:
        """Tell whether the clients of a rule's own namespace find it first."""
        private = rule.export_to == {rule.namespace}
        return rule.exported_to(rule.namespace) and (
            private or rule.namespace != self._settings.root_namespace
        )

    @classmethod
    def of(
        cls,
        objects: Iterable[ConfigObject],
        settings: "RuleSettings",
        before: "DestinationRules | None" = None,
    ) -> "DestinationRules":
        """Return the rules of these objects: those before, if nothing of them changed."""
        objects = tuple(objects)
        if (
            before is not None
            and before._settings == settings
            and same_objects(before._objects, objects)
        ):
            return before
        return cls(objects, settings, before)

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
        return frozenset(key for rule in self.rules for key in rule.labels_looked_at)

    @cached_property
    def depend_on_place(self) -> bool:
        """Whether the endpoints of some rule depend on where the client runs."""
        return any(rule.depends_on_place for rule in self.rules)

    def pass_on(self, host: str) -> bool:
        """Tell whether connections to a host may go where they were going, by some rule."""
        return any(has(each, host) for each in self._passing_on)

    @cached_property
    def _passing_on(self) -> frozenset[str]:
        """The hosts of the rules that pass connections on."""
        return frozenset(rule.host for rule in self.rules if rule.passes_on)

    def _found(self, namespace: str, service: Service) -> tuple[Rule, ...]:
        local = self._local.get(namespace)
        if local is not None and (found := local.most_specific(service.host)):
            return found
        for owner in dict.fromkeys((service.namespace, self._settings.root_namespace)):
            exported = self._exported.get(owner)
            if exported is None:
                continue
            # Which host is most specific is decided before who may see it.
            found = tuple(
                each for each in exported.most_specific(service.host) if each.exported_to(namespace)
            )
            if found:
                return found
        return ()


_Key = tuple[str, str, int]
"""Namespace, host, and which of several of them."""
_Edited = Mapping[_Key, _Made | None]
_OfHost = dict[tuple[str, str], list[tuple[ConfigObject, DestinationRuleSpec]]]
_RULE = attrgetter("rule")
_FEW = 100


def _indexed(
    before: Mapping[str, HostIndex[Rule]], edited: _Edited, has: Callable[[Rule], bool]
) -> Mapping[str, HostIndex[Rule]]:
    """Return the indices of namespaces after edits; has: tells whether a rule is in them."""
    changed: dict[str, dict[str, tuple[Rule, ...]]] = {}
    for (namespace, host, _), made in edited.items():
        rules = (made.rule,) if made is not None and has(made.rule) else ()
        changed.setdefault(namespace, {})[host] = rules
    found = dict(before)
    for namespace, of_hosts in changed.items():
        found[namespace] = found.get(namespace, HostIndex()).edited(of_hosts)
    return found


def _is_exported(rule: Rule) -> bool:
    return rule.export_to != {rule.namespace}


def _by_host(objects: Iterable[ConfigObject], domain: str) -> _OfHost:
    found: _OfHost = {}
    for item in objects:
        if isinstance(item.spec, DestinationRuleSpec):
            host = full_host(item.spec.host, item.namespace, domain)
            found.setdefault((item.namespace, host), []).append((item, item.spec))
    return found


def _made(
    objects: Iterable[ConfigObject], settings: RuleSettings, before: Mapping[_Key, _Made]
) -> dict[_Key, _Made]:
    found: dict[_Key, _Made] = {}
    for (namespace, host), items in _by_host(objects, settings.domain).items():
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
        for index, (_, exported, group) in enumerate(groups):
            key = namespace, host, index
            found[key] = _made_again(key, tuple(group), exported, before.get(key))
    return found


def _made_again(
    key: _Key, objects: tuple[ConfigObject, ...], export_to: frozenset[str], known: _Made | None
) -> _Made:
    """Return the rule of some objects: the one known, if it says the same."""
    if known is not None and known.export_to == export_to and same_objects(known.objects, objects):
        rule = known.rule
    else:
        rule = _merged(key[0], key[1], objects, export_to)
        if known is not None and known.rule == rule:
            rule = known.rule
    return _Made(objects=objects, export_to=export_to, rule=rule)


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


NO_RULES = DestinationRules((), RuleSettings(domain="", root_namespace="", export_to=()))
"""Those of a mesh without any."""
