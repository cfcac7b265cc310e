"""The virtual hosts of one port, which an edit of a rule changes where it concerns them.

Whose host is whose is found once (`plan/virtual_hosts`). After an edit that leaves this as it is,
only the routes of the hosts that it is about are looked at again.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple, TypeAlias

from mesh_discovery._edits import replacements
from mesh_discovery.generate.routes._virtual_hosts import virtual_host
from mesh_discovery.model._destination_rules import DestinationRules
from mesh_discovery.model._scope import OutboundPolicy
from mesh_discovery.model._services import Service
from mesh_discovery.model.virtual_services._virtual_services import VirtualService
from mesh_discovery.plan.virtual_hosts._governed_hosts import GovernedHost
from mesh_discovery.push.clients._rule_change import RuleChange

RoutesOf: TypeAlias = Callable[[GovernedHost], bytes]
"""Returns the routes of a host, serialised; of a VirtualService without effect, none."""


class HostPart(NamedTuple):
    """One virtual host, and the parts that it is put together of."""

    governed: GovernedHost
    names: bytes
    routes: bytes
    settings: bytes
    body: bytes

    @classmethod
    def of(cls, governed: GovernedHost, names: bytes, routes: bytes, settings: bytes) -> "HostPart":
        """Put a virtual host together."""
        body = virtual_host(names, routes, settings)
        return cls(governed, names, routes, settings, body)


@dataclass(frozen=True, kw_only=True)
class PortHosts:
    """The virtual hosts of a port, with all that decided over them."""

    services: Sequence[Service]
    """The services of the listener."""
    virtual_services: Sequence[VirtualService]
    rules: DestinationRules
    parts: Mapping[str, HostPart]
    """By the name of the virtual host, in the order of names."""
    outbound_policy: OutboundPolicy
    unknown: tuple[bytes, ...]
    """The virtual host of unknown hosts, by the policy, if there is one."""

    @property
    def bodies(self) -> list[bytes]:
        """The virtual hosts, serialised."""
        return [*(each.body for each in self.parts.values()), *self.unknown]

    def is_of(self, services: Sequence[Service]) -> bool:
        """Tell whether services are the same but for their endpoints."""
        changed = replacements(self.services, services)
        return changed is not None and all(
            old.without_endpoints() == new.without_endpoints() for old, new in changed
        )

    def with_rules(
        self,
        virtual_services: Sequence[VirtualService],
        rules: DestinationRules,
        change: RuleChange,
        *,
        routes_of: RoutesOf,
        applies: Callable[[VirtualService], bool],
    ) -> "PortHosts | None":
        """Return the virtual hosts with other rules; None if it may have to be found anew whose
        host is whose.

        change: of the rules. applies: whether a VirtualService has routes for the port.
        """
        edited = _edited(self.virtual_services, virtual_services)
        if edited is None or any(applies(new) != self._applied(old) for old, new in edited.items()):
            return None
        parts = dict(self.parts)
        for name, part in self.parts.items():
            governing = part.governed.virtual_service
            if governing is None:
                touched = change.touches(part.governed.host)
            else:
                touched = governing in edited or change.touches_any(governing.destination_hosts)
            if touched:
                governed = part.governed
                if governing is not None:
                    governed = replace(governed, virtual_service=edited.get(governing, governing))
                parts[name] = HostPart.of(governed, part.names, routes_of(governed), part.settings)
        return replace(self, virtual_services=virtual_services, rules=rules, parts=parts)

    def _applied(self, virtual_service: VirtualService) -> bool:
        """Tell whether a VirtualService has routes here; if it governs no host, it is unknown."""
        for part in self.parts.values():
            if part.governed.virtual_service is virtual_service:
                return bool(part.routes)
        return False


def _edited(
    old: Sequence[VirtualService], new: Sequence[VirtualService]
) -> Mapping[VirtualService, VirtualService] | None:
    """Return the VirtualServices that were edited, with what they are now.

    None if one came or went, or has other hosts now: then others may have lost or won.
    """
    changed = replacements(old, new)
    if changed is None:
        return None
    for before, after in changed:
        same_name = (before.namespace, before.name) == (after.namespace, after.name)
        if not same_name or before.hosts != after.hosts:
            return None
    return dict(changed)
