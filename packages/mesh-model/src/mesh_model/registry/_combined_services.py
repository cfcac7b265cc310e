"""The services of all objects as one list: each host of a namespace once, aliases resolved.

A Kubernetes service wins over ServiceEntries of its host and namespace; several ServiceEntries of
one host are one service, and so are the Kubernetes services of one name in several clusters. An
ExternalName service that names a service of the mesh is an alias of that service, as in Istio
(ENABLE_EXTERNAL_NAME_ALIAS); any other resolves its host by DNS.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property

from istio_config import ObjectKey
from mesh_model._services import Registry, Service, ServiceKey
from mesh_model.kubernetes._kubernetes_services import of_clusters
from mesh_model.registry._service_entries import united

Sources = Mapping[ObjectKey, tuple[Service, ...]]
"""The services of each object, oldest first."""


@dataclass(frozen=True)
class Combined:
    """The services of a mesh, with those that several objects describe."""

    by_key: Mapping[ServiceKey, Service] = field(default_factory=dict)
    several: Mapping[ServiceKey, tuple[Service, ...]] = field(default_factory=dict)
    """By key: the services that were merged into one, since several objects describe its host."""
    aliases: Mapping[ServiceKey, tuple[ServiceKey, ...]] = field(default_factory=dict)
    """The further names of services that have some."""

    @cached_property
    def services(self) -> tuple[Service, ...]:
        """The services, oldest first."""
        return tuple(self.by_key.values())


def combine(sources: Sources, before: Combined | None = None) -> Combined:
    """Merge to one service for each host of a namespace; unchanged ones are kept."""
    found: dict[ServiceKey, Service] = {}
    several: dict[ServiceKey, tuple[Service, ...]] = {}
    external: list[Service] = []
    for services in sources.values():
        for each in services:
            key = each.namespace, each.host
            if (known := found.setdefault(key, each)) is not each:
                several[key] = (*several.get(key, (known,)), each)
            if each.external_name:
                external.append(each)
    for key, services in several.items():
        found[key] = _one_of(key, services, before)
    aliases = _aliases(found, [each for each in external if found[_key(each)] is each])
    for target, names in aliases.items():
        named = [found.pop(name) for name in names]
        ports = tuple((one.host, one.ports[0].number) for one in named if len(one.ports) == 1)
        found[target] = _with_aliases(found[target], names, ports, before)
    return Combined(found, several, aliases)


def recombine(before: Combined, was: Sources, edited: Sources) -> Combined | None:
    """Return the services after edits of some objects; None if hosts came, went or lead elsewhere.

    was: the services of each object before. edited: those of the objects that were edited.
    """
    found, several = dict(before.by_key), dict(before.several)
    for source, services in edited.items():
        former = was[source]
        if [_key(each) for each in former] != [_key(each) for each in services]:
            return None
        for old, new in zip(former, services, strict=True):
            if old is new:
                continue
            key = _key(new)
            if old.external_name or new.external_name:
                return None
            one = new
            if key in several:
                several[key] = tuple(new if each is old else each for each in several[key])
                one = _one_of(key, several[key], None)
            known = before.by_key[key]
            found[key] = _with_aliases(one, known.aliases, known.alias_ports, before)
    return Combined(found, several, before.aliases)


def _key(service: Service) -> ServiceKey:
    return service.namespace, service.host


def _one_of(key: ServiceKey, services: tuple[Service, ...], before: Combined | None) -> Service:
    """Merge several services of one key; the previous result, if these did not change."""
    if before is not None:
        known = before.several.get(key, ())
        if len(known) == len(services) and all(map(_is, known, services)):
            same = before.by_key.get(key)
            if same is not None and not same.aliases:
                return same
    own = tuple(each for each in services if each.registry is Registry.KUBERNETES)
    return of_clusters(own) if own else united(services)


def _is(one: Service, other: Service) -> bool:
    return one is other


def _with_aliases(
    service: Service,
    names: tuple[ServiceKey, ...],
    ports: tuple[tuple[str, int], ...],
    before: Combined | None,
) -> Service:
    if not names:
        return service
    named = replace(service, aliases=names, alias_ports=ports)
    known = before.by_key.get(_key(service)) if before is not None else None
    return known if known == named else named


def _aliases(
    found: Mapping[ServiceKey, Service], external: Iterable[Service]
) -> dict[ServiceKey, tuple[ServiceKey, ...]]:
    """Return the names of ExternalName services by the service that they lead to in the end."""
    names = {_key(each): each.external_name for each in external}
    if not names:
        return {}
    by_host: dict[str, ServiceKey] = {}
    for key in found:
        by_host.setdefault(key[1], key)
    aliases: dict[ServiceKey, tuple[ServiceKey, ...]] = {}
    for name, host in names.items():
        target = _target(name, host, names, by_host, found)
        if target is not None:
            aliases[target] = (*aliases.get(target, ()), name)
    return aliases


def _target(
    name: ServiceKey,
    host: str,
    names: Mapping[ServiceKey, str],
    by_host: Mapping[str, ServiceKey],
    found: Mapping[ServiceKey, Service],
) -> ServiceKey | None:
    """Follow an alias, of an alias it may be; None if it leads out of the mesh, or round."""
    seen = {name}
    while True:
        own = name[0], host
        target = own if own in found else by_host.get(host)
        if target is None or target in seen:
            return None
        if target not in names:
            return target
        seen.add(target)
        host = names[target]
