"""Finds VirtualServices that lose to others of the same host, at sidecars and at one Gateway.

In each namespace those that are private to it come first, then those exported to it by name, then
public ones; among each the oldest. One loses if it does so wherever it is visible. At sidecars the
first with HTTP routes has the host alone. At Gateways routes add up, and those that take all
requests come last; so do routes of connections, until one takes all.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from functools import partial
from typing import NamedTuple

import msgspec

from envoy_config.plan.gateway._bindings import bound_hosts
from istio_config import ConfigObject
from istio_config.kinds.gateway import parse_server_host
from istio_config.kinds.virtual_service import (
    HttpMatch,
    TcpMatch,
    TlsMatch,
    VirtualServiceSpec,
    never_reached,
    takes_everything,
)
from mesh_configfile import FieldPath, Problem
from mesh_model import MESH, Gateway, VirtualService

_ALL = "*"


class Candidate(NamedTuple):
    """A VirtualService that has a host, with its object; those of a host are in their order."""

    found: VirtualService
    item: ConfigObject


_Losing = Callable[[Sequence[VirtualServiceSpec]], AbstractSet[int]]
"""Returns the places of those specs, of some in order, that get nothing behind those before."""
_MOST_COMPARED = 50_000
"""Matches of a host's VirtualServices that are compared, over all namespaces that see them. Of more
nothing is said: each of a thousand may be exported to a thousand namespaces.
"""
_MOST_NAMED = 20
"""The VirtualServices among which the one is looked for that takes all by itself."""


def losers_at_sidecars(host: str, candidates: Sequence[Candidate]) -> Iterator[Problem]:
    """Yield what gets nothing at any sidecar; candidates: those with the host, by age."""
    known = [each for each in candidates if MESH in each.found.gateways]
    for loser, winner in _losers(known, _exported_to_sidecars, _without_requests):
        yield loser.item.problem(
            _host_path(loser, host),
            f'"{host}" is governed by VirtualService {winner.namespace}/{winner.name}, which '
            "comes first: the routes here take no requests of sidecars; make it one "
            "VirtualService",
            "IST0109",
        )
    yield from _of_connections(known, _exported_to_sidecars, MESH, f'"{host}" at sidecars')


def losers_at_gateway(
    gateway: Gateway, host: str, candidates: Sequence[Candidate]
) -> Iterator[Problem]:
    """Yield what gets nothing by a Gateway; candidates: those with the host that name it."""
    servers = [
        parse_server_host(each, gateway.namespace)
        for server in gateway.spec.servers
        for each in server.hosts
    ]
    known = [
        each
        for each in candidates
        if bound_hosts(servers, each.found, gateway_namespace=gateway.namespace)
    ]

    for loser, winner in _losers(known, _exported, partial(_shadowed, gateway=gateway.key)):
        yield loser.item.problem(
            _host_path(loser, host),
            f'"{host}" has the routes of VirtualService {winner.namespace}/{winner.name} at '
            f"Gateway {gateway.key}, which come first and take all that those here would; make it "
            "one VirtualService, or give the matches here something of their own",
        )
    yield from _of_connections(known, _exported, gateway.key, f'"{host}" at Gateway {gateway.key}')


def _of_connections(
    candidates: Sequence[Candidate],
    exported: Callable[[VirtualService], AbstractSet[str]],
    gateway: str,
    where: str,
) -> Iterator[Problem]:
    sections: Mapping[str, _Losing] = {
        "tcp": partial(_without_connections, gateway=gateway),
        "tls": partial(_without_names, gateway=gateway),
    }
    for section, losing in sections.items():
        for loser, winner in _losers(candidates, exported, losing):
            yield loser.item.problem(
                ("spec", section),
                f"{where} has the routes of VirtualService {winner.namespace}/{winner.name}, which "
                "come first and take all connections that those here would; make it one "
                "VirtualService",
            )


def _losers(
    candidates: Sequence[Candidate],
    exported: Callable[[VirtualService], AbstractSet[str]],
    losing: _Losing,
) -> Iterator[tuple[Candidate, VirtualService]]:
    """Yield each that gets nothing in any namespace that sees it, with one before it."""
    if len(candidates) < 2:
        return
    reach = [exported(each.found) for each in candidates]
    views = _Views([each.found for each in candidates], reach, losing)
    for at, each in enumerate(candidates):
        namespaces = sorted(reach[at])
        if namespaces and all(views.winners(at, namespace) for namespace in namespaces):
            first = views.winners(at, namespaces[0])
            spec = each.found.spec
            alone = (one for one in first[:_MOST_NAMED] if 1 in losing([one.spec, spec]))
            yield each, next(alone, first[0])


class _Views:
    """The VirtualServices of a host in the order in which each namespace sees them."""

    def __init__(
        self,
        found: Sequence[VirtualService],
        reach: Sequence[AbstractSet[str]],
        losing: _Losing,
    ) -> None:
        """reach: the namespaces that see each; `*`: all."""
        self._found = found
        self._reach = reach
        self._losing = losing
        self._weights = [_weight(each.spec) for each in found]
        self._left = _MOST_COMPARED
        self._known: dict[str, tuple[list[int], AbstractSet[int]]] = {}

    def winners(self, at: int, namespace: str) -> Sequence[VirtualService]:
        """Return those before one that gets nothing in a namespace; none if it gets something."""
        order, losing = self._view(namespace)
        if at not in losing:
            return ()
        return [self._found[index] for index in order[: order.index(at)]]

    def _view(self, namespace: str) -> tuple[list[int], AbstractSet[int]]:
        if (known := self._known.get(namespace)) is not None:
            return known
        if self._left <= 0:
            return [], frozenset()
        seen_by = {namespace, _ALL}
        visible = [index for index, reach in enumerate(self._reach) if reach & seen_by]
        order = sorted(
            visible, key=lambda index: _rank(self._found[index], self._reach[index], namespace)
        )
        self._left -= len(self._reach) + sum(self._weights[index] for index in order)
        losing = self._losing([self._found[index].spec for index in order])
        view = order, frozenset(order[place] for place in losing)
        self._known[namespace] = view
        return view


def _weight(spec: VirtualServiceSpec) -> int:
    """Return how many matches the routes of a spec have."""
    matches = (
        *(route.match for route in spec.http),
        *(route.match for route in spec.tcp),
        *(route.match for route in spec.tls),
    )
    return sum(len(each) or 1 for each in matches)


def _rank(found: VirtualService, reach: AbstractSet[str], namespace: str) -> int:
    """Return the place of a VirtualService's layer in a namespace; `*`: one that none names."""
    if _ALL in reach:
        return 2
    return 0 if found.namespace == namespace else 1


def _exported_to_sidecars(found: VirtualService) -> AbstractSet[str]:
    return frozenset({_ALL}) if _ALL in found.mesh_export_to else found.mesh_export_to


def _exported(found: VirtualService) -> AbstractSet[str]:
    return frozenset({_ALL}) if _ALL in found.export_to else found.export_to


def _host_path(candidate: Candidate, host: str) -> FieldPath:
    hosts = candidate.found.hosts
    return ("spec", "hosts", hosts.index(host)) if host in hosts else ("spec", "hosts")


def _without_requests(specs: Sequence[VirtualServiceSpec]) -> AbstractSet[int]:
    first = next((at for at, each in enumerate(specs) if _always_applies(each)), len(specs))
    return {at for at in range(first + 1, len(specs)) if specs[at].http}


def _always_applies(spec: VirtualServiceSpec) -> bool:
    """Return whether there is a route at each sidecar and for each port."""
    return any(
        not route.match
        or any(
            match.port is None
            and not match.source_labels
            and not match.source_namespace
            and (not match.gateways or MESH in match.gateways)
            for match in route.match
        )
        for route in spec.http
    )


def _shadowed(specs: Sequence[VirtualServiceSpec], *, gateway: str) -> AbstractSet[int]:
    """Return the specs whose HTTP routes are all behind others that take their requests."""
    some: list[tuple[int, HttpMatch]] = []
    rest: list[tuple[int, HttpMatch]] = []
    for at, spec in enumerate(specs):
        for match in _http(spec, gateway):
            (rest if takes_everything(match) else some).append((at, match))
    # One look at all of them is enough: no match with a condition, of a later one, takes all that a
    # match without conditions does.
    both = [*some, *rest]
    hidden = never_reached([match for _, match in both])
    reached = {at for index, (at, _) in enumerate(both) if index not in hidden}
    return {at for at, _ in both} - reached


def _without_connections(specs: Sequence[VirtualServiceSpec], *, gateway: str) -> AbstractSet[int]:
    found: set[int] = set()
    taken: set[int | None] = set()  # ports; None: all
    for at, spec in enumerate(specs):
        own = list(_tcp(spec, gateway))
        if own and all({None, each.port} & taken for each in own):
            found.add(at)
        taken.update(each.port for each in own if _is_open(each))
    return found


def _without_names(specs: Sequence[VirtualServiceSpec], *, gateway: str) -> AbstractSet[int]:
    found: set[int] = set()
    taken: set[tuple[str, int | None]] = set()
    for at, spec in enumerate(specs):
        matches = list(_tls(spec, gateway))
        own = [(sni, each.port) for each in matches for sni in each.sni_hosts]
        if own and all({(sni, None), (sni, port)} & taken for sni, port in own):
            found.add(at)
        taken.update(
            (sni, each.port) for each in matches if _is_open(each) for sni in each.sni_hosts
        )
    return found


def _http(spec: VirtualServiceSpec, gateway: str) -> Iterator[HttpMatch]:
    for route in spec.http:
        for match in route.match or (HttpMatch(),):
            if not match.gateways or gateway in match.gateways:
                yield msgspec.structs.replace(match, gateways=())


def _tcp(spec: VirtualServiceSpec, gateway: str) -> Iterator[TcpMatch]:
    for route in spec.tcp:
        for match in route.match or (TcpMatch(),):
            if not match.gateways or gateway in match.gateways:
                yield match


def _tls(spec: VirtualServiceSpec, gateway: str) -> Iterator[TlsMatch]:
    for route in spec.tls:
        for match in route.match:
            if not match.gateways or gateway in match.gateways:
                yield match


def _is_open(match: TcpMatch | TlsMatch) -> bool:
    """Return whether a match holds for all clients, and to all addresses."""
    return not (match.destination_subnets or match.source_labels or match.source_namespace)
