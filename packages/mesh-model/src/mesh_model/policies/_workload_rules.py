"""Objects that are for workloads by namespace and labels, and which of them apply to one.

A policy, a Telemetry or an EnvoyFilter of the root namespace is for the whole mesh, any other for
its own namespace. What several of them mean together is for each kind to say.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Generic, NamedTuple, TypeVar, cast

import msgspec

from istio_config import ConfigObject, ObjectKey, Snapshot
from istio_config.kinds.authorization_policy import AUTHORIZATION_POLICY
from istio_config.kinds.envoy_filter import ENVOY_FILTER
from istio_config.kinds.kind import Kind
from istio_config.kinds.proxy_config import PROXY_CONFIG
from istio_config.kinds.registry import AnyKind
from istio_config.kinds.request_authentication import REQUEST_AUTHENTICATION
from istio_config.kinds.selection import Selecting
from istio_config.kinds.telemetry import TELEMETRY
from istio_config.kinds.traffic_extension import EXTENSION_KINDS
from mesh_model._derived import Derived, derive
from mesh_model._object_changes import says_the_same
from mesh_model._services import Labels

SpecT = TypeVar("SpecT", bound=msgspec.Struct)

WORKLOAD_KINDS: tuple[AnyKind, ...] = (
    AUTHORIZATION_POLICY,
    ENVOY_FILTER,
    PROXY_CONFIG,
    REQUEST_AUTHENTICATION,
    TELEMETRY,
    *EXTENSION_KINDS,
)
"""The kinds of such objects; their specs all have a `selection`."""

_GATEWAY_NAME = "gateway.networking.k8s.io/gateway-name"
_MOST_WORKLOADS = 10_000

RuleName = tuple[str, str, str]
"""Kind, namespace and name."""


class Workload(NamedTuple):
    """A proxy as such objects choose it."""

    namespace: str
    labels: Labels = ()
    is_gateway: bool = False


@dataclass(frozen=True, eq=False, slots=True, kw_only=True)
class WorkloadRule(Generic[SpecT]):
    """One object; the same one for as long as it says the same, so identity compares them.

    Where it stands in files is asked of `WorkloadRules.object_of`: it may move meanwhile.
    """

    kind: str
    namespace: str
    name: str
    spec: SpecT
    annotations: Labels

    def selects(self, workload: Workload) -> bool:
        """Return whether it is for a workload, given that its namespace reaches so far."""
        selection = cast("Selecting", self.spec).selection
        labels = dict(workload.labels)
        if selection.is_for_waypoints:
            return False
        if selection.gateways:
            return (
                workload.is_gateway
                and workload.namespace == self.namespace
                and labels.get(_GATEWAY_NAME) in selection.gateways
            )
        return selection.labels.items() <= labels.items()


AnyRule = WorkloadRule[msgspec.Struct]
_ByNamespace = Mapping[str, tuple[AnyRule, ...]]


class _RulesOfKind(NamedTuple):
    """The rules of one kind by their objects' keys, and the lists of them of each namespace."""

    rules: Derived[ConfigObject, ObjectKey, AnyRule]
    listed: Derived[ConfigObject, str, tuple[AnyRule, ...]]

    @classmethod
    def build(
        cls, objects: Iterable[ConfigObject], *, before: "_RulesOfKind | None"
    ) -> "_RulesOfKind":
        rules = derive(
            objects,
            lambda each: each.key,
            lambda _, items: _rule(items[-1]),
            before=before.rules if before is not None else None,
            same=says_the_same,
        )
        listed = derive(
            objects,
            lambda each: each.namespace,
            lambda _, items: tuple(rules.values[each.key] for each in items),
            before=before.listed if before is not None else None,
            same=says_the_same,
        )
        return cls(rules, listed)


class WorkloadRules:
    """All such objects of a mesh."""

    def __init__(self, by_kind: Mapping[str, _ByNamespace], *, root_namespace: str) -> None:
        """by_kind: by the kind's name, then by namespace, oldest first."""
        self._by_kind = {name: each for name, each in by_kind.items() if each}
        self._root = root_namespace
        self._kinds: Mapping[str, _RulesOfKind] = {}
        """The objects' rules by kind, for the model after this one."""
        self._found: dict[tuple[str, Workload], tuple[AnyRule, ...]] = {}

    @classmethod
    def build(
        cls, snapshot: Snapshot, *, root_namespace: str, before: "WorkloadRules | None" = None
    ) -> "WorkloadRules":
        """Return those of a snapshot; an object that says what it said stays the rule that it was.

        before: those of the model that is replaced; returned itself if no object is another.
        """
        known = before._kinds if before is not None else {}
        kinds = {
            kind.name: _RulesOfKind.build(snapshot.of_kind(kind), before=known.get(kind.name))
            for kind in WORKLOAD_KINDS
        }
        rules = cls(
            {name: each.listed.values for name, each in kinds.items()},
            root_namespace=root_namespace,
        )
        if before is not None and before.is_same(rules):
            if all(kinds[name].rules.objects == each.rules.objects for name, each in known.items()):
                rules = before
            else:  # some only stand elsewhere in files
                rules._found = before._found
        rules._kinds = kinds
        return rules

    @cached_property
    def by_name(self) -> Mapping[RuleName, AnyRule]:
        """All of them."""
        return {
            (kind, each.namespace, each.name): each
            for kind, by_namespace in self._by_kind.items()
            for rules in by_namespace.values()
            for each in rules
        }

    def __bool__(self) -> bool:
        """Return whether there are any."""
        return bool(self._by_kind)

    def has(self, kind: AnyKind) -> bool:
        """Return whether there are any of a kind."""
        return kind.name in self._by_kind

    def of_kind(self, kind: Kind[SpecT]) -> tuple[WorkloadRule[SpecT], ...]:
        """Return all of a kind."""
        found = (each for rules in self._by_kind.get(kind.name, {}).values() for each in rules)
        return cast("tuple[WorkloadRule[SpecT], ...]", tuple(found))

    def applying(self, kind: Kind[SpecT], workload: Workload) -> tuple[WorkloadRule[SpecT], ...]:
        """Return the rules of a kind that are for a workload; none for one of no namespace.

        Those of the root namespace come first, then those of its own; of each the oldest first.
        """
        if kind.name not in self._by_kind or not workload.namespace:
            return ()
        key = kind.name, workload
        found = self._found.get(key)
        if found is None:
            if len(self._found) >= _MOST_WORKLOADS:
                self._found.clear()
            found = self._found[key] = self._find(kind.name, workload)
        return cast("tuple[WorkloadRule[SpecT], ...]", found)

    def object_of(self, rule: WorkloadRule[SpecT]) -> ConfigObject:
        """Return the object that a rule is built from, which knows its file and line."""
        return self._objects[rule.kind, rule.namespace, rule.name]

    @cached_property
    def _objects(self) -> Mapping[RuleName, ConfigObject]:
        return {
            (each.kind, each.namespace, each.name): each
            for kind in self._kinds.values()
            for each in kind.rules.objects
        }

    def applies(self, name: RuleName, workload: Workload) -> bool:
        """Return whether there is such an object, and whether it is for a workload."""
        if name[1] not in (self._root, workload.namespace):
            return False
        found = self.by_name.get(name)
        return found is not None and found.selects(workload)

    def is_same(self, other: "WorkloadRules") -> bool:
        """Return whether two meshes have the same rules, in the same order."""
        return self is other or (self._root == other._root and self._by_kind == other._by_kind)

    def differing(self, other: "WorkloadRules") -> frozenset[RuleName]:
        """Return the names of the objects that two meshes do not have alike.

        All of them if the root namespace is another, or only the order of some.
        """
        if self.is_same(other):
            return frozenset()
        own, others = self.by_name, other.by_name
        names = own.keys() | others.keys()
        if self._root != other._root:
            return frozenset(names)
        return frozenset({each for each in names if own.get(each) is not others.get(each)} or names)

    def _find(self, kind: str, workload: Workload) -> tuple[AnyRule, ...]:
        by_namespace = self._by_kind[kind]
        return tuple(
            each
            for namespace in dict.fromkeys((self._root, workload.namespace))
            for each in by_namespace.get(namespace, ())
            if each.selects(workload)
        )


def _rule(item: ConfigObject) -> AnyRule:
    return WorkloadRule(
        kind=item.kind,
        namespace=item.namespace,
        name=item.name,
        spec=item.spec,
        annotations=item.annotations,
    )


NO_WORKLOAD_RULES = WorkloadRules({}, root_namespace="")
