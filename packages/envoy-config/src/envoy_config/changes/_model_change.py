"""The difference of two models, as the caches of a new push context need it."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

from envoy_config.changes._rule_change import RuleChange, rule_change
from istio_config import ObjectKey
from istio_config.edits import edits
from istio_config.kinds.sidecar import SIDECAR
from mesh_model import (
    ChangedServices,
    MeshModel,
    Service,
    VirtualService,
    changed_services,
    only_endpoints_differ,
)

_ABOUT_REQUESTS = ("VirtualService.", "Gateway.", "Secret.")
"""Kinds without effect on connections between workloads, if a VirtualService has no such routes."""
_SIDECAR = f"{SIDECAR.name}.{SIDECAR.group}"
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
    def rules(self) -> frozenset[ObjectKey]:
        """The objects of traffic rules that differ."""
        return self.old.rules.differing(self.new.rules)

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
        """Whether rules for connections that are not looked into as HTTP are the same in both."""
        if not all(kind.startswith(_ABOUT_REQUESTS) for kind, *_ in self.rules):
            return False
        changed = edits(self.old.virtual_services.all, self.new.virtual_services.all)
        return not any(each.spec.tls or each.spec.tcp for each in (*changed.gone, *changed.come))

    @cached_property
    def same_sidecars(self) -> bool:
        """Whether settings are the same in both, and of rules the Sidecar objects."""
        return self.same_settings and not any(kind == _SIDECAR for kind, *_ in self.rules)

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
        changed = edits(self.old.destination_rules.rules, self.new.destination_rules.rules)
        return frozenset(map(id, changed.gone))

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
