"""Finds VirtualServices that lose to others of the same host, at sidecars and at one Gateway.

In each namespace those that are private to it come first, then those exported to it by name, then
public ones; among each the oldest. One loses if it does so wherever it is visible. At sidecars the
first with HTTP routes has the host alone. At Gateways routes add up, and those that take all
requests come last; so do routes of connections, until one takes all.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from collections.abc import Set as AbstractSet
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


_Loses = Callable[[VirtualServiceSpec, Sequence[VirtualServiceSpec]], bool]
"""Returns whether routes of a spec get nothing behind those of others, in order."""


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

    def loses(spec: VirtualServiceSpec, before: Sequence[VirtualServiceSpec]) -> bool:
        return _is_shadowed(spec, before, gateway.key)

    for loser, winner in _losers(known, _exported, loses):
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
    def without_connections(spec: VirtualServiceSpec, before: Sequence[VirtualServiceSpec]) -> bool:
        earlier = [each for one in before for each in _tcp(one, gateway)]
        own = list(_tcp(spec, gateway))
        return bool(own) and all(any(_covers(one, each) for one in earlier) for each in own)

    def without_names(spec: VirtualServiceSpec, before: Sequence[VirtualServiceSpec]) -> bool:
        taken = {
            (sni, each.port)
            for one in before
            for each in _tls(one, gateway)
            if _is_open(each)
            for sni in each.sni_hosts
        }
        own = [(sni, each.port) for each in _tls(spec, gateway) for sni in each.sni_hosts]
        return bool(own) and all({(sni, None), (sni, port)} & taken for sni, port in own)

    for section, loses in (("tcp", without_connections), ("tls", without_names)):
        for loser, winner in _losers(candidates, exported, loses):
            yield loser.item.problem(
                ("spec", section),
                f"{where} has the routes of VirtualService {winner.namespace}/{winner.name}, which "
                "come first and take all connections that those here would; make it one "
                "VirtualService",
            )


def _losers(
    candidates: Sequence[Candidate],
    exported: Callable[[VirtualService], AbstractSet[str]],
    loses: _Loses,
) -> Iterator[tuple[Candidate, VirtualService]]:
    """Yield each that gets nothing in any namespace that sees it, with the first before it."""
    if len(candidates) < 2:
        return
    reach = [exported(each.found) for each in candidates]
    for at, each in enumerate(candidates):
        rivals: list[VirtualService] = []
        for namespace in sorted(reach[at]):
            before = sorted(
                (_rank(other.found, reach[index], namespace), index)
                for index, other in enumerate(candidates)
                if reach[index] & {namespace, _ALL}
            )
            own = before.index((_rank(each.found, reach[at], namespace), at))
            first = [candidates[index].found for _, index in before[:own]]
            if not first or not loses(each.found.spec, [one.spec for one in first]):
                break
            rivals.append(
                next((one for one in first if loses(each.found.spec, [one.spec])), first[0])
            )
        else:
            if rivals:
                yield each, rivals[0]


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


def _without_requests(spec: VirtualServiceSpec, before: Sequence[VirtualServiceSpec]) -> bool:
    return bool(spec.http) and any(map(_always_applies, before))


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


def _is_shadowed(
    spec: VirtualServiceSpec, before: Iterable[VirtualServiceSpec], gateway: str
) -> bool:
    """Return whether all HTTP routes of a spec are behind others that take their requests."""
    some: list[tuple[bool, HttpMatch]] = []
    rest: list[tuple[bool, HttpMatch]] = []
    for of_loser, one in (*((False, each) for each in before), (True, spec)):
        for match in _http(one, gateway):
            (rest if takes_everything(match) else some).append((of_loser, match))
    both = [*some, *rest]
    hidden = never_reached([match for _, match in both])
    own = [index for index, (of_loser, _) in enumerate(both) if of_loser]
    return bool(own) and hidden.issuperset(own)


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


def _covers(one: TcpMatch, other: TcpMatch) -> bool:
    return _is_open(one) and one.port in (None, other.port)


def _is_open(match: TcpMatch | TlsMatch) -> bool:
    """Return whether a match holds for all clients, and to all addresses."""
    return not (match.destination_subnets or match.source_labels or match.source_namespace)
