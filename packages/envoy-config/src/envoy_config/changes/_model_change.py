"""The difference of two models, as the caches of a new push context need it."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

from envoy_config.changes._rule_changes import RuleChange, rule_change, touches_connections
from envoy_config.changes._touches import EVERYTHING, TOUCHES, Part
from istio_config import ObjectKey
from istio_config.edits import edits
from mesh_model import (
    ChangedServices,
    Differing,
    MeshModel,
    Service,
    VirtualService,
    changed_services,
    only_endpoints_differ,
)

ServiceKey = tuple[str, str]
"""Namespace and host."""


@dataclass(frozen=True, kw_only=True)
class ModelChange:
    """A model, and the one that it replaces."""

    old: MeshModel
    new: MeshModel

    @cached_property
    def services(self) -> ChangedServices:
        """The services that differ."""
        return changed_services(self.old, self.new)

    @cached_property
    def rules(self) -> Mapping[ObjectKey, Differing]:
        """The objects of traffic rules that differ."""
        return self.old.rules.differences(self.new.rules)

    def _rules_touch(self, part: Part) -> bool:
        """Return whether rules differ of a kind that touches a type of all sidecars' resources."""
        kinds = {kind.partition(".")[0] for kind, *_ in self.rules}
        return any(part in TOUCHES.get(each, EVERYTHING).sidecars for each in kinds)

    @cached_property
    def same_rules(self) -> bool:
        """Whether equal services give equal resources in both."""
        return self.same_settings and not self.rules

    @cached_property
    def same_settings(self) -> bool:
        """Whether mesh config, policies and the owners of hosts are the same in both."""
        old, new = self.old, self.new
        return (
            old.mesh_config == new.mesh_config
            and old.networks == new.networks
            and old.owners == new.owners
            and old.trust_domain == new.trust_domain
            and old.policies == new.policies
        )

    @cached_property
    def same_connections(self) -> bool:
        """Whether sidecars have the same rules in both for connections that are not HTTP."""
        return not self._rules_touch(Part.LISTENERS) and not touches_connections(
            self.new, self.rules.values(), self.rule_change
        )

    @cached_property
    def same_sidecars(self) -> bool:
        """Whether settings are the same in both, and rules by which proxies know services."""
        return self.same_settings and not self._rules_touch(Part.NAMES)

    @cached_property
    def same_virtual_services(self) -> bool:
        """Whether the VirtualServices are the same in both."""
        return self.old.virtual_services is self.new.virtual_services

    @cached_property
    def gone_virtual_services(self) -> frozenset[VirtualService]:
        """The VirtualServices that are there no longer, or not as they were."""
        changed = edits(self.old.virtual_services.all, self.new.virtual_services.all)
        return frozenset(changed.gone)

    @cached_property
    def rule_change(self) -> RuleChange:
        """The hosts that may have another DestinationRule."""
        return rule_change(self.old.destination_rules, self.new.destination_rules)

    @cached_property
    def gone_rules(self) -> frozenset[int]:
        """The identities of the rules that are there no longer, or not as they were."""
        return frozenset(map(id, self.rule_change.gone))

    @cached_property
    def same_visibility(self) -> bool:
        """Whether each namespace sees services of the same hosts, and of the same namespaces."""
        return self.services.same_order and all(
            before is not None and after is not None and before.export_to == after.export_to
            for before, after in self.services.pairs.values()
        )

    @cached_property
    def same_scopes(self) -> bool:
        """Whether each scope's key leads to a scope of the same services and rules."""
        return self.same_visibility and self.same_rules

    @cached_property
    def same_ports(self) -> bool:
        """Whether Sidecars choose the same services, and ports of them."""
        return all(
            before is not None
            and after is not None
            and before.ports == after.ports
            and before.aliases == after.aliases
            and before.registry is after.registry
            for before, after in self.services.pairs.values()
        )

    @cached_property
    def replaced(self) -> Mapping[ServiceKey, Service]:
        """The services that were there before and are now, as they are now."""
        return {
            key: after
            for key, (before, after) in self.services.pairs.items()
            if before is not None and after is not None
        }

    @cached_property
    def endpoints_only(self) -> frozenset[ServiceKey]:
        """The services that differ in endpoints alone, on which their clusters do not depend."""
        return frozenset(
            key
            for key, (before, after) in self.services.pairs.items()
            if only_endpoints_differ(before, after, self.new.destination_rules)
        )

    @cached_property
    def same_but_endpoints(self) -> bool:
        """Whether services differ in nothing but their endpoints."""
        services = self.services
        return services.same_order and len(self.endpoints_only) == len(services.pairs)

    @cached_property
    def only_endpoints(self) -> bool:
        """Whether the models differ in nothing but the endpoints of services."""
        return self.same_rules and self.same_but_endpoints
