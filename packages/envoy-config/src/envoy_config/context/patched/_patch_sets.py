"""The patches of proxies: one set for all that have the same, kept from model to model."""

from typing import NamedTuple

from envoy_config.patch import _sorts as sorts
from envoy_config.patch._failures import Failure
from envoy_config.plan._proxy import Proxy
from envoy_config.plan.policies._patches import (
    NO_PATCHES,
    Patch,
    ProxyPatches,
    Rule,
    patches_for,
    patches_in,
    rules_for,
)
from istio_config.kinds.envoy_filter import ENVOY_FILTER, ApplyTo
from mesh_model import NO_WORKLOAD_RULES, MeshModel
from xds_server import Resource


class PatchedResource(NamedTuple):
    """A resource after its patches; None if it was removed."""

    resource: Resource | None
    applied: tuple[Patch, ...] = ()
    """The patches that may be for it."""
    failures: tuple[Failure, ...] = ()
    addresses: tuple[str, ...] = ()
    """Where it listens, if it is a listener."""
    moved: bool = False
    """Whether it listens elsewhere than without patches."""


class PatchSet:
    """The patches of some proxies."""

    def __init__(self, patches: ProxyPatches) -> None:
        self.patches = patches
        self.on_listeners = sorts.for_listeners(patches.listeners)
        self.added_listeners = sorts.added(patches.listeners, ApplyTo.LISTENER)
        self.on_clusters = sorts.for_clusters(patches.clusters)
        self.added_clusters = sorts.added(patches.clusters, ApplyTo.CLUSTER)
        self.on_routes = sorts.for_routes(patches.routes)

    def is_of(self, live: frozenset[Patch]) -> bool:
        """Return whether all of its patches are among some."""
        return all(each in live for part in self.patches for each in part)


class PatchSets:
    """Finds the patches of proxies."""

    def __init__(self) -> None:
        self._rules = NO_WORKLOAD_RULES
        self._by_rule: dict[Rule, tuple[Patch, ...]] = {}
        self._sets: dict[ProxyPatches, PatchSet] = {}

    def for_model(self, model: MeshModel) -> "PatchSets":
        """Return those of a model, with what stays of these."""
        if self._rules is model.workload_rules:
            return self
        found = PatchSets()
        found._rules = model.workload_rules
        live = frozenset(found._rules.of_kind(ENVOY_FILTER))
        found._by_rule = {rule: own for rule, own in self._by_rule.items() if rule in live}
        patches = found.live
        found._sets = {key: each for key, each in self._sets.items() if each.is_of(patches)}
        return found

    @property
    def live(self) -> frozenset[Patch]:
        """The patches of the EnvoyFilters that some proxy has."""
        return frozenset(each for patches in self._by_rule.values() for each in patches)

    @property
    def all(self) -> frozenset[PatchSet]:
        """The patches of all proxies that asked so far."""
        return frozenset(self._sets.values())

    def for_proxy(self, proxy: Proxy, model: MeshModel) -> PatchSet | None:
        """Return the patches of a proxy, if it has some."""
        rules = rules_for(proxy, model)
        if not rules:
            return None
        found = patches_for(proxy, [patch for rule in rules for patch in self._patches(rule)])
        if found is NO_PATCHES:
            return None
        known = self._sets.get(found)
        if known is None:
            known = self._sets[found] = PatchSet(found)
        return known

    def _patches(self, rule: Rule) -> tuple[Patch, ...]:
        if rule not in self._by_rule:
            self._by_rule[rule] = patches_in(rule)
        return self._by_rule[rule]
