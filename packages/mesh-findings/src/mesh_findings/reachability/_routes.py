"""Finds VirtualServices, or parts of them, without effect; problems say where in the files.

Each is looked at by itself; beside that, each host that several want, and each delegate
with those that name it. An edit has only those looked at again that it can have changed.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import chain

from istio_config import ConfigObject
from istio_config.edits import edits
from istio_config.host_patterns import has
from istio_config.kinds.virtual_service import VIRTUAL_SERVICE, VirtualServiceSpec
from mesh_configfile import Problem
from mesh_findings.reachability._by_key import Key, Problems, edited, find_again, regrouped
from mesh_findings.reachability._foreign_hosts import kept_at_home
from mesh_findings.reachability._known_hosts import KnownHosts
from mesh_findings.reachability._losers import (
    Candidate,
    Losers,
    losers_at_gateway,
    losers_at_sidecars,
)
from mesh_findings.reachability._rules import RuleFindings
from mesh_findings.unused._gateways import hosts_at, is_translated, unused_bindings
from mesh_findings.unused._virtual_services import (
    delegates_of,
    destination_hosts,
    is_delegate,
    missing_destinations,
)
from mesh_model import MESH, NO_GATEWAYS, Gateways, MeshModel, VirtualService, resolved_gateways

_Groups = Mapping[Key, tuple[Key, ...]]
_OBJECT, _HOST, _AT_GATEWAY, _DELEGATE, _DESTINATION, _GATEWAY = (
    "object",
    "host",
    "host at a gateway",
    "delegate",
    "destination",
    "gateway",
)


@dataclass(frozen=True, kw_only=True)
class RouteFindings:
    """The VirtualServices of a mesh, and the problems of those without effect."""

    domain: str
    """The mesh's, which completes short names."""
    rules: RuleFindings = field(default_factory=RuleFindings)
    gateways: Gateways = NO_GATEWAYS
    objects: Sequence[ConfigObject] = ()
    virtual_services: Sequence[VirtualService] = ()
    items: Mapping[Key, ConfigObject] = field(default_factory=dict)
    """The objects that someone wrote, by namespace and name."""
    by_item: Mapping[Key, VirtualService] = field(default_factory=dict)
    """The VirtualServices by namespace and name of their objects."""
    groups: _Groups = field(default_factory=dict)
    """By each thing, as `_groups` names them, the objects that have to do with it."""
    problems: Problems = field(default_factory=dict)
    """Of objects, of hosts that are routed, and of delegates."""
    warnings: Problems = field(default_factory=dict)
    """Of hosts that are routed: VirtualServices of which some routes are never reached."""

    def after(self, model: MeshModel, hosts: KnownHosts) -> "RouteFindings":
        """Return the findings of a later model; hosts: of its services."""
        rules, other_hosts = self.rules.after(model, hosts)
        objects = model.rules.of_kind(VIRTUAL_SERVICE)
        virtual_services = model.virtual_services.all
        items, route_edits = (
            edits(self.objects, objects),
            edits(self.virtual_services, virtual_services),
        )
        found = RouteFindings(
            domain=model.domain,
            rules=rules,
            gateways=model.gateways,
            objects=objects,
            virtual_services=virtual_services,
            items=edited(
                self.items,
                map(_key, items.gone),
                {_key(each): each for each in items.come if not is_translated(each)},
            ),
            by_item=edited(
                self.by_item,
                map(_key, route_edits.gone),
                {_key(each): each for each in route_edits.come},
            ),
        )
        touched = {_key(each) for each in (*items.gone, *items.come)}
        touched |= {_key(each) for each in (*route_edits.gone, *route_edits.come)}
        touched |= self._bound_to_others(model.gateways)
        left = [(group, each) for each in touched for group in self._groups(each)]
        joined = [(group, each) for each in touched for group in found._groups(each)]
        found = replace(found, groups=regrouped(self.groups, left, joined))
        again = {(_OBJECT, *each) for each in touched}
        again.update(group for group, _ in chain(left, joined) if group[0] == _DELEGATE)
        other_hosts |= rules.hosts.aliases_of(other_hosts)
        again.update(self._leading_to(other_hosts))
        routed = {group for group, _ in chain(left, joined) if group[0] in (_HOST, _AT_GATEWAY)}
        losers = {each: found._losers(each) for each in routed}
        problems = find_again(self.problems, again, found._problems_of)
        return replace(
            found,
            problems=find_again(problems, routed, lambda each: losers[each].whole),
            warnings=find_again(self.warnings, routed, lambda each: losers[each].in_part),
        )

    def leading_to(self, host: str) -> Iterator[ConfigObject]:
        """Yield the objects that someone wrote of which a destination has a host."""
        return (self.items[each] for each in self.groups.get((_DESTINATION, host), ()))

    def _groups(self, key: Key) -> Iterator[Key]:
        """Yield the things with which an object has to do, each once."""
        item = self.items.get(key)
        if item is None:
            return
        if is_delegate(item):
            yield _DELEGATE, *key
        for delegate in delegates_of(item) - {key}:
            yield _DELEGATE, *delegate
        if isinstance(item.spec, VirtualServiceSpec):
            for gateway in resolved_gateways(item.spec.gateways, item.namespace):
                yield _GATEWAY, gateway
        virtual_service = self.by_item.get(key)
        if virtual_service is not None:
            for gateway in virtual_service.gateways:
                if gateway == MESH:
                    yield from ((_HOST, host) for host in dict.fromkeys(virtual_service.hosts))
                elif (known := self.gateways.by_key.get(gateway)) is not None:
                    bound = hosts_at(known, virtual_service)
                    yield from ((_AT_GATEWAY, gateway, host) for host in bound)
            for host in destination_hosts(item, self.domain):
                yield _DESTINATION, host

    def _leading_to(self, hosts: AbstractSet[str]) -> Iterator[Key]:
        """Yield the objects of which a destination has certain hosts, wildcards among them."""
        found: set[Key] = {(_DESTINATION, each) for each in hosts}
        for pattern in hosts:
            if pattern.startswith("*"):
                leading = (each for each in self.groups if each[0] == _DESTINATION)
                found.update(each for each in leading if has(pattern, each[1]))
        return self._objects_of(found)

    def _bound_to_others(self, gateways: Gateways) -> AbstractSet[Key]:
        """Return the objects that are bound to Gateways which were added, changed or removed."""
        changed = ("/".join(each) for each in self.gateways.differing(gateways))
        return {key for name in changed for key in self.groups.get((_GATEWAY, name), ())}

    def _objects_of(self, groups: Iterable[Key]) -> Iterator[Key]:
        return ((_OBJECT, *each) for group in groups for each in self.groups.get(group, ()))

    def _problems_of(self, thing: Key) -> Iterator[Problem]:
        sort, *names = thing
        if sort == _OBJECT:
            return self._unused(tuple(names))
        return self._unnamed(thing, tuple(names))

    def _losers(self, thing: Key) -> Losers:
        """Return the problems of those that have a host, at sidecars or at a Gateway."""
        sort, *names = thing
        candidates = self._oldest_first(self.groups.get(thing, ()))
        if sort == _HOST:
            return losers_at_sidecars(names[0], candidates)
        gateway = self.gateways.by_key.get(names[0])
        return losers_at_gateway(gateway, names[1], candidates) if gateway is not None else Losers()

    def _unused(self, key: Key) -> Iterator[Problem]:
        item = self.items.get(key)
        if item is None:
            return
        virtual_service = self.by_item.get(key)
        yield from unused_bindings(item, virtual_service, self.gateways)
        if virtual_service is not None:
            yield from kept_at_home(item, virtual_service)
            for path, message in virtual_service.unused:
                yield item.problem(("spec", *path), message)
            hosts = self.rules.hosts
            yield from missing_destinations(
                item,
                lambda host: hosts.have(hosts.real(host)),
                lambda host, subset: self.rules.have_subset(hosts.real(host), subset),
                domain=self.domain,
                ports_of=lambda host: hosts.ports.get(hosts.real(host)),
            )

    def _unnamed(self, thing: Key, key: Key) -> Iterator[Problem]:
        """Yield the problem of a delegate, if no object but itself has to do with it."""
        item = self.items.get(key)
        if item is None or not is_delegate(item) or key in delegates_of(item):
            return
        if self.groups[thing] == (key,):
            yield item.problem(
                ("spec",), "has no hosts, and no VirtualService delegates to it: it has no effect"
            )

    def _oldest_first(self, keys: Sequence[Key]) -> Sequence[Candidate]:
        found = [Candidate(self.by_item[each], self.items[each]) for each in keys]
        if len(found) > 1:
            found.sort(key=lambda each: self._positions[id(each.found)])
        return found

    @cached_property
    def _positions(self) -> Mapping[int, int]:
        return {id(each): at for at, each in enumerate(self.virtual_services)}


def _key(thing: ConfigObject | VirtualService) -> Key:
    return thing.namespace, thing.name
