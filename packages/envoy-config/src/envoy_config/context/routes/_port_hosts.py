"""The virtual hosts of one port, which an edit of a rule changes where it concerns them.

The VirtualService of each host is found once (`plan/virtual_hosts`). An edit that does not change
that rebuilds only the routes of the hosts that it is about.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from operator import attrgetter
from typing import NamedTuple, TypeAlias

from envoy_config.changes._rule_changes import RuleChange
from envoy_config.generate.routes._virtual_hosts import virtual_host
from envoy_config.plan.virtual_hosts._routed_hosts import RoutedHost
from istio_config.edits import replacements
from mesh_model import DestinationRules, OutboundPolicy, Service, VirtualService
from xds_server import Resource

RoutesOf: TypeAlias = Callable[[RoutedHost], bytes]
"""Returns the routes of a host, serialised; of a VirtualService without effect, none."""


_BODY = attrgetter("body")


class HostPart(NamedTuple):
    """One virtual host, and the parts that it is put together of."""

    routed: RoutedHost
    names: bytes
    routes: bytes
    settings: bytes
    body: bytes

    @classmethod
    def build(cls, routed: RoutedHost, names: bytes, routes: bytes, settings: bytes) -> "HostPart":
        """Put a virtual host together."""
        body = virtual_host(names, routes, settings)
        return cls(routed, names, routes, settings, body)


class PartIndex(NamedTuple):
    """The names of virtual hosts by what an edit of a rule may concern."""

    routed: Mapping[VirtualService, tuple[str, ...]]
    """By the VirtualService that applies to them."""
    leading: Mapping[str, tuple[str, ...]]
    """By the hosts that they lead to."""

    @classmethod
    def build(cls, parts: Mapping[str, HostPart]) -> "PartIndex":
        """Sort virtual hosts."""
        routed: dict[VirtualService, list[str]] = {}
        leading: dict[str, list[str]] = {}
        for name, part in parts.items():
            applied = part.routed.virtual_service
            if applied is not None:
                routed.setdefault(applied, []).append(name)
            for host in _leads_to(part.routed):
                leading.setdefault(host, []).append(name)
        return cls(
            {key: tuple(names) for key, names in routed.items()},
            {key: tuple(names) for key, names in leading.items()},
        )

    def touched(self, edited: Iterable[VirtualService], change: RuleChange) -> list[str]:
        """Return the names of those that may have other routes now."""
        if change.suffixes:
            hosts: Iterable[str] = filter(change.touches, self.leading)
        else:
            hosts = change.hosts
        found = [name for each in edited for name in self.routed.get(each, ())]
        found += [name for host in hosts for name in self.leading.get(host, ())]
        return list(dict.fromkeys(found))

    def edited(self, edited: Mapping[VirtualService, VirtualService]) -> "PartIndex":
        """Return the index with other VirtualServices of the same hosts."""
        if not edited:
            return self
        routed, leading = dict(self.routed), dict(self.leading)
        for old, new in edited.items():
            names = routed.pop(old, ())
            if not names:
                continue
            routed[new] = names
            for host in old.destination_hosts - new.destination_hosts:
                left = tuple(each for each in leading[host] if each not in names)
                if left:
                    leading[host] = left
                else:
                    del leading[host]
            for host in new.destination_hosts - old.destination_hosts:
                leading[host] = (*leading.get(host, ()), *names)
        return PartIndex(routed, leading)


def _leads_to(routed: RoutedHost) -> Iterable[str]:
    applied = routed.virtual_service
    return (routed.host,) if applied is None else applied.destination_hosts


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
    index: "PartIndex"
    resource: Resource | None = None
    """The route configuration of all of them, once it was generated."""

    @property
    def bodies(self) -> list[bytes]:
        """The virtual hosts, serialised."""
        return [*map(_BODY, self.parts.values()), *self.unknown]

    def is_of(self, services: Sequence[Service]) -> bool:
        """Return whether services are the same but for their endpoints."""
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
        parts, touched = dict(self.parts), self.index.touched(edited, change)
        for name in touched:
            known = parts[name]
            routed, applied = known.routed, known.routed.virtual_service
            if applied is not None:
                routed = replace(routed, virtual_service=edited.get(applied, applied))
            routes = routes_of(routed)
            if routes != known.routes or routed is not known.routed:
                parts[name] = HostPart.build(routed, known.names, routes, known.settings)
        same = all(parts[name].body == self.parts[name].body for name in touched)
        return replace(
            self,
            virtual_services=virtual_services,
            rules=rules,
            parts=parts,
            index=self.index.edited(edited),
            resource=self.resource if same else None,
        )

    def _applied(self, virtual_service: VirtualService) -> bool:
        """Return whether a VirtualService has routes here; not if it applies to no host."""
        names = self.index.routed.get(virtual_service, ())
        return any(self.parts[name].routes for name in names)


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
