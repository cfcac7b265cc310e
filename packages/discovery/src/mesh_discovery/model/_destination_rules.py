"""DestinationRules: which one a client's namespace has for a service.

The client's own namespace comes first, then the service's, then the root namespace; the first of
them that has a rule for the host ends the search. In each the most specific host counts. Rules of
one host in one namespace are merged: the first policy is that of all, their subsets are united.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import msgspec

from mesh_discovery.config._objects import ConfigObject
from mesh_discovery.config.kinds.destination_rule._spec import (
    DestinationRuleSpec,
    PortTrafficPolicy,
    Subset,
    TrafficPolicy,
)
from mesh_discovery.model._host_index import HostIndex
from mesh_discovery.model._services import Labels, Service
from mesh_discovery.model._short_names import full_host

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
    export_to: frozenset[str] = frozenset({_ALL})

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

    def exported_to(self, namespace: str) -> bool:
        """Tell whether clients of a namespace may see it."""
        return _ALL in self.export_to or namespace in self.export_to


@dataclass(frozen=True, kw_only=True)
class _Made:
    """A rule, and the objects that it was made of."""

    objects: tuple[ConfigObject, ...]
    export_to: frozenset[str]
    rule: Rule


class DestinationRules:
    """All DestinationRules of a mesh, found by client's namespace and service."""

    def __init__(
        self,
        objects: Sequence[ConfigObject] = (),
        *,
        root_namespace: str = "istio-system",
        export_to: Sequence[str] = (_ALL,),
        before: "DestinationRules | None" = None,
    ) -> None:
        """objects: oldest first. export_to: of rules that say nothing of it.

        before: the rules before; those that are made of the same objects stay the same.
        """
        self._objects = tuple(objects)
        self._root = root_namespace
        self._export_to = tuple(export_to)
        self._made: Mapping[_Key, _Made] = _made(
            self._objects, self._export_to, before._made if before else {}
        )
        self.rules = tuple(each.rule for each in self._made.values())
        """Each once; of a namespace and host in the order in which they count."""
        local: dict[str, list[tuple[str, Rule]]] = {}
        exported: dict[str, list[tuple[str, Rule]]] = {}
        for rule in self.rules:
            found = rule.host, rule
            private = rule.export_to == {rule.namespace}
            if rule.exported_to(rule.namespace) and (private or rule.namespace != self._root):
                local.setdefault(rule.namespace, []).append(found)
            if not private:
                exported.setdefault(rule.namespace, []).append(found)
        self._local = {namespace: HostIndex(found) for namespace, found in local.items()}
        self._exported = {namespace: HostIndex(found) for namespace, found in exported.items()}

    @classmethod
    def of(
        cls,
        objects: Iterable[ConfigObject],
        *,
        root_namespace: str = "istio-system",
        export_to: Sequence[str] = (_ALL,),
        before: "DestinationRules | None" = None,
    ) -> "DestinationRules":
        """Return the rules of these objects: those before, if nothing of them changed."""
        objects = tuple(objects)
        if (
            before is not None
            and before._root == root_namespace
            and before._export_to == tuple(export_to)
            and _same(before._objects, objects)
        ):
            return before
        return cls(objects, root_namespace=root_namespace, export_to=export_to, before=before)

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

    @cached_property
    def policies(self) -> tuple[TrafficPolicy | PortTrafficPolicy, ...]:
        """All policies of all rules, also those of ports and subsets."""
        return tuple(policy for rule in self.rules for policy in rule.policies)

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
    def live(self) -> frozenset[int]:
        """The identities of all rules, to tell which of those kept in caches are gone."""
        return frozenset(map(id, self.rules))

    @cached_property
    def selector_labels(self) -> frozenset[str]:
        """The keys of the labels of proxies that rules look at."""
        return frozenset(key for rule in self.rules for key in rule.selector)

    def _found(self, namespace: str, service: Service) -> tuple[Rule, ...]:
        local = self._local.get(namespace)
        if local is not None and (found := local.most_specific(service.host)):
            return found
        for owner in dict.fromkeys((service.namespace, self._root)):
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


def _made(
    objects: Iterable[ConfigObject], default: Sequence[str], before: Mapping[_Key, _Made]
) -> dict[_Key, _Made]:
    by_host: dict[tuple[str, str], list[tuple[ConfigObject, DestinationRuleSpec]]] = {}
    for item in objects:
        if isinstance(item.spec, DestinationRuleSpec):
            host = full_host(item.spec.host, item.namespace)
            by_host.setdefault((item.namespace, host), []).append((item, item.spec))
    found: dict[_Key, _Made] = {}
    for (namespace, host), items in by_host.items():
        # Those for certain workloads come first; the sort keeps the order otherwise.
        items.sort(key=lambda pair: pair[1].workload_selector is None)
        groups: list[tuple[Mapping[str, str], frozenset[str], list[ConfigObject]]] = []
        for item, spec in items:
            selector, exported = _selector(spec), _exported(item, spec, default)
            same = next((g for g in groups if g[0] == selector and g[1] == exported), None)
            if same is None:
                groups.append((selector, exported, [item]))
            else:
                same[2].append(item)
        for index, (_, exported, group) in enumerate(groups):
            key = namespace, host, index
            known = before.get(key)
            of = tuple(group)
            if known is not None and known.export_to == exported and _same(known.objects, of):
                rule = known.rule
            else:
                rule = _merged(namespace, host, of, exported)
                if known is not None and known.rule == rule:
                    rule = known.rule
            found[key] = _Made(objects=of, export_to=exported, rule=rule)
    return found


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


def _same(before: Sequence[ConfigObject], after: Sequence[ConfigObject]) -> bool:
    """Tell whether objects have the same content; where they stand in files means nothing."""
    return len(before) == len(after) and all(
        old is new or (old.spec is new.spec and old.key == new.key)
        for old, new in zip(before, after, strict=True)
    )


NO_RULES = DestinationRules()
"""Those of a mesh without any."""
