"""Finds what VirtualServices say and comes to nothing, with the place in the files.

Each object is valid by itself. A delegate may be missing, or no root may name it; another
VirtualService may govern the same host; a destination may be no service, or a subset of no rule.
"""

from collections.abc import Iterator, Mapping

from mesh_configfile import FieldPath, Problem
from mesh_discovery._host_patterns import has
from mesh_discovery.config._objects import ConfigObject
from mesh_discovery.config.kinds.virtual_service._destinations import Destination
from mesh_discovery.config.kinds.virtual_service._kind import VIRTUAL_SERVICE
from mesh_discovery.config.kinds.virtual_service._spec import VirtualServiceSpec
from mesh_discovery.model._model import MeshModel
from mesh_discovery.model._short_names import full_host
from mesh_discovery.model.virtual_services._resolved_names import MESH
from mesh_discovery.model.virtual_services._virtual_services import VirtualService

_ALL = "*"
_TRANSLATED = "internal.istio.io/"
"""The beginning of annotations of objects that no one wrote as they are."""


def unused_routes(model: MeshModel) -> Iterator[Problem]:
    """Yield a problem for each part of a VirtualService that comes to nothing."""
    items = {
        (each.namespace, each.name): each
        for each in model.rules.of_kind(VIRTUAL_SERVICE)
        if not any(key.startswith(_TRANSLATED) for key, _ in each.annotations)
    }
    yield from _delegates(items)
    governors: dict[str, VirtualService] = {}
    known = _Known(model)
    for each in model.virtual_services.all:
        item = items.get((each.namespace, each.name))
        if item is None:
            continue
        for path, message in each.unused:
            yield item.problem(("spec", *path), message)
        yield from _governed_by_others(each, item, governors)
        yield from known.missing_destinations(item)


def same_routes(old: MeshModel, new: MeshModel) -> bool:
    """Tell whether `unused_routes` finds the same in both, if their services are the same."""
    return (
        old.virtual_services is new.virtual_services
        and old.destination_rules is new.destination_rules
    )


def _delegates(items: Mapping[tuple[str, str], ConfigObject]) -> Iterator[Problem]:
    named = {
        (route.delegate.namespace or namespace, route.delegate.name)
        for (namespace, _), item in items.items()
        if isinstance(item.spec, VirtualServiceSpec)
        for route in item.spec.http
        if route.delegate is not None
    }
    for key, item in items.items():
        if isinstance(item.spec, VirtualServiceSpec) and not item.spec.hosts and key not in named:
            yield item.problem(
                ("spec",), "has no hosts, and no VirtualService delegates to it: it has no effect"
            )


def _governed_by_others(
    found: VirtualService, item: ConfigObject, governors: dict[str, VirtualService]
) -> Iterator[Problem]:
    """Yield the hosts that an older VirtualService governs at all sidecars."""
    if MESH not in found.gateways or _ALL not in found.export_to or not found.spec.http:
        return
    for index, host in enumerate(found.hosts):
        first = governors.get(host)
        if first is None:
            if _always_applies(found):
                governors[host] = found
        elif MESH in found.gateways:
            yield item.problem(
                ("spec", "hosts", index),
                f'"{host}" is governed by VirtualService {first.namespace}/{first.name}, which '
                "comes first: the routes here take no requests of sidecars; make it one "
                "VirtualService",
            )


def _always_applies(found: VirtualService) -> bool:
    """Tell whether a VirtualService has a route at each sidecar and for each port."""
    return any(
        not route.match
        or any(
            match.port is None
            and not match.source_labels
            and not match.source_namespace
            and (not match.gateways or MESH in match.gateways)
            for match in route.match
        )
        for route in found.spec.http
    )


class _Known:
    """The hosts and the subsets of a mesh."""

    def __init__(self, model: MeshModel) -> None:
        self._hosts = frozenset(each.host for each in model.services)
        self._wildcards = tuple(each for each in self._hosts if each.startswith("*"))
        self._rules: dict[str, set[str]] = {}
        for rule in model.destination_rules.rules:
            self._rules.setdefault(rule.host, set()).update(rule.subsets)
        self._patterns = tuple(each for each in self._rules if each.startswith("*"))

    def missing_destinations(self, item: ConfigObject) -> Iterator[Problem]:
        """Yield the destinations of an object that lead nowhere."""
        for path, destination in _destinations(item.spec):
            host = full_host(destination.host, item.namespace)
            if not self._has_host(host):
                yield item.problem(
                    (*path, "host"),
                    f"there is no service {host}: what is sent there is answered with 503, or "
                    "closed",
                )
            elif destination.subset and not self._has_subset(host, destination.subset):
                yield item.problem(
                    (*path, "subset"),
                    f'no DestinationRule for {host} has the subset "{destination.subset}": what is '
                    "sent there is answered with 503, or closed",
                )

    def _has_host(self, host: str) -> bool:
        return host in self._hosts or any(has(each, host) for each in self._wildcards)

    def _has_subset(self, host: str, subset: str) -> bool:
        return subset in self._rules.get(host, ()) or any(
            subset in self._rules[each] for each in self._patterns if has(each, host)
        )


def _destinations(spec: object) -> Iterator[tuple[FieldPath, Destination]]:
    if not isinstance(spec, VirtualServiceSpec):
        return
    weighted: list[tuple[FieldPath, Destination | None]] = []
    for index, http in enumerate(spec.http):
        place: FieldPath = ("spec", "http", index, "route")
        weighted += [((*place, at), each.destination) for at, each in enumerate(http.route)]
    for index, tls in enumerate(spec.tls):
        place = ("spec", "tls", index, "route")
        weighted += [((*place, at), each.destination) for at, each in enumerate(tls.route)]
    for index, tcp in enumerate(spec.tcp):
        place = ("spec", "tcp", index, "route")
        weighted += [((*place, at), each.destination) for at, each in enumerate(tcp.route)]
    for place, destination in weighted:
        if destination is not None:
            yield (*place, "destination"), destination
    for index, http in enumerate(spec.http):
        if http.mirror is not None:
            yield ("spec", "http", index, "mirror"), http.mirror
        for at, mirror in enumerate(http.mirrors):
            if mirror.destination is not None:
                yield ("spec", "http", index, "mirrors", at, "destination"), mirror.destination
