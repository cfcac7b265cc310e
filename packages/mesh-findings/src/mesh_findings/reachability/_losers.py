"""Finds VirtualServices that lose to others of the same host, at sidecars and at one Gateway.

In each namespace those that are private to it come first, then those exported to it by name, then
public ones; among each the oldest. One loses if it does so wherever it is visible. At sidecars the
first with HTTP routes has the host alone. At Gateways routes add up, and those that take all
requests come last; so do routes of connections, until one takes all. Where they add up, one may
lose in part: some of its matches are behind others that take all that they would.
"""

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from functools import partial
from typing import NamedTuple

from envoy_config.plans import bound_hosts
from istio_config import ConfigObject
from istio_config.host_patterns import has
from istio_config.kinds.gateway import ServerHost, parse_server_host
from istio_config.kinds.virtual_service import VirtualServiceSpec
from mesh_configfile import FieldPath, Problem, field_name
from mesh_findings.reachability._losses import (
    Loss,
    shadowed,
    without_connections,
    without_names,
    without_requests,
)
from mesh_model import MESH, Gateway, VirtualService

_ALL = "*"


class Candidate(NamedTuple):
    """A VirtualService that has a host, with its object; those of a host are in their order."""

    found: VirtualService
    item: ConfigObject


class Losers(NamedTuple):
    """The problems of VirtualServices of one host: those that get nothing, or lose in part."""

    whole: tuple[Problem, ...] = ()
    in_part: tuple[Problem, ...] = ()


_Losing = Callable[[Sequence[VirtualServiceSpec]], Mapping[int, Loss]]
_Exported = Callable[[VirtualService], AbstractSet[str]]
_Groups = Sequence[Sequence[Candidate]]
"""Those that add up: at sidecars all, at a Gateway those of the same servers."""
_MOST_COMPARED = 50_000
"""Matches of a host's VirtualServices that are compared, over all namespaces that see them. Of more
nothing is said: each of a thousand may be exported to a thousand namespaces.
"""
_MOST_LISTED = 5
"""The fields that one problem names beside its own."""


def losers_at_sidecars(host: str, candidates: Sequence[Candidate]) -> Losers:
    """Return what gets nothing at any sidecar; candidates: those with the host, by age."""
    known = [[each for each in candidates if MESH in each.found.gateways]]
    whole = [
        loser.item.problem(
            _host_path(loser, host),
            f'"{host}" is governed by VirtualService {_winner(loss)}, which '
            "comes first: the routes here take no requests of sidecars; make it one "
            "VirtualService",
            "IST0109",
        )
        for loser, loss in _losses(known, _exported_to_sidecars, without_requests)
        if loss.whole
    ]
    connections = _of_connections(known, _exported_to_sidecars, MESH, f'"{host}" at sidecars')
    return Losers((*whole, *connections.whole), connections.in_part)


def losers_at_gateway(gateway: Gateway, host: str, candidates: Sequence[Candidate]) -> Losers:
    """Return what gets nothing by a Gateway, or less than it says, of the requests for a host.

    candidates: those that are bound to it by this host, by age.
    """
    if len(candidates) < 2:
        return Losers()
    known = _by_servers(gateway, host, candidates)
    where = f'"{host}" at Gateway {gateway.key}'
    whole: list[Problem] = []
    in_part: list[Problem] = []
    for loser, loss in _losses(known, _exported, partial(shadowed, gateway=gateway.key)):
        if not loss.whole:
            in_part += _in_part(loser, loss, where, "requests")
            continue
        whole.append(
            loser.item.problem(
                _host_path(loser, host),
                f"{where} has the routes of VirtualService {_winner(loss)}, which come first and "
                "take all that those here would; make it one VirtualService, or give the matches "
                "here something of their own",
            )
        )
    connections = _of_connections(known, _exported, gateway.key, where)
    return Losers((*whole, *connections.whole), (*in_part, *connections.in_part))


def _by_servers(gateway: Gateway, host: str, candidates: Sequence[Candidate]) -> _Groups:
    """Return those that share a virtual host: of a port in plaintext, or of one server of TLS."""
    hosts: dict[tuple[int, int | None], list[ServerHost]] = {}
    for index, server in enumerate(gateway.spec.servers):
        key = server.port.number, None if server.tls is None else index
        parsed = (parse_server_host(each, gateway.namespace) for each in server.hosts)
        hosts.setdefault(key, []).extend(each for each in parsed if has(each.host, host))
    found: dict[tuple[int, ...], list[Candidate]] = {}
    for of_key in hosts.values():
        bound = {
            at: each
            for at, each in enumerate(candidates)
            if host in bound_hosts(of_key, each.found, gateway_namespace=gateway.namespace)
        }
        found.setdefault(tuple(bound), list(bound.values()))
    return tuple(found.values())


def _of_connections(known: _Groups, exported: _Exported, gateway: str, where: str) -> Losers:
    sections: Mapping[str, _Losing] = {
        "tcp": partial(without_connections, gateway=gateway),
        "tls": partial(without_names, gateway=gateway),
    }
    whole: list[Problem] = []
    in_part: list[Problem] = []
    for section, losing in sections.items():
        for loser, loss in _losses(known, exported, losing):
            if not loss.whole:
                in_part += _in_part(loser, loss, where, "connections")
                continue
            whole.append(
                loser.item.problem(
                    ("spec", section),
                    f"{where} has the routes of VirtualService {_winner(loss)}, which come first "
                    "and take all connections that those here would; make it one VirtualService",
                )
            )
    return Losers(tuple(whole), tuple(in_part))


class _NamedLoss(NamedTuple):
    """A loss, with the names of those that take it."""

    whole: bool
    parts: Mapping[FieldPath, str]


def _winner(loss: _NamedLoss) -> str:
    """Return the name of the one that takes most."""
    return Counter(loss.parts.values()).most_common(1)[0][0]


def _in_part(loser: Candidate, loss: _NamedLoss, where: str, what: str) -> Iterator[Problem]:
    """Yield a problem for each that takes some of what a VirtualService says."""
    by_winner: dict[str, dict[FieldPath, None]] = {}
    for path, winner in loss.parts.items():
        by_winner.setdefault(winner, {})[_written(loser.item, path)] = None
    for winner, paths in by_winner.items():
        first, *others = paths
        yield loser.item.problem(
            ("spec", *first),
            f"{where} has the routes of VirtualService {winner}, which come first and take all "
            f"{what} that {_listed(others)} would; remove what is never reached, or give it "
            "something of its own",
        )


def _written(item: ConfigObject, path: FieldPath) -> FieldPath:
    """Return the field of an object for one of its VirtualService, which has delegates' routes."""
    spec = item.spec
    has_delegates = isinstance(spec, VirtualServiceSpec) and any(
        each.delegate is not None for each in spec.http
    )
    return path[:1] if path[0] == "http" and has_delegates else path


def _listed(others: Sequence[FieldPath]) -> str:
    names = [field_name(each) for each in others[:_MOST_LISTED]]
    if more := len(others) - len(names):
        names.append(f"{more} more")
    return f"this and {', '.join(names)}" if names else "this"


def _losses(
    groups: _Groups, exported: _Exported, losing: _Losing
) -> Iterator[tuple[Candidate, _NamedLoss]]:
    """Yield what each loses in every group that has it, and every namespace that sees it."""
    views = _Views(groups, exported, losing)
    for each in {each.found: each for group in groups for each in group}.values():
        losses = list(views.losses(each.found))
        if losses and all(loss.parts for loss in losses):
            common = set.intersection(*(set(loss.parts) for loss in losses))
            parts = {path: by for path, by in losses[0].parts.items() if path in common}
            if parts:
                yield each, _NamedLoss(all(loss.whole for loss in losses), parts)


class _Views:
    """The VirtualServices of a host in the order in which each namespace sees them."""

    def __init__(self, groups: _Groups, exported: _Exported, losing: _Losing) -> None:
        self._groups = [dict.fromkeys(each.found for each in group) for group in groups]
        self._exported = exported
        self._losing = losing
        self._left = _MOST_COMPARED
        self._known: dict[tuple[int, str], Mapping[VirtualService, _NamedLoss]] = {}

    def losses(self, found: VirtualService) -> Iterator[_NamedLoss]:
        """Yield what one loses in each group and namespace, until it loses nothing in one."""
        for number, group in enumerate(self._groups):
            for namespace in sorted(self._exported(found)) if found in group else ():
                loss = self._view(number, namespace).get(found, _NOTHING)
                yield loss
                if not loss.parts:
                    return

    def _view(self, number: int, namespace: str) -> Mapping[VirtualService, _NamedLoss]:
        """Return what those of a group lose in a namespace."""
        key = number, namespace
        if (known := self._known.get(key)) is not None:
            return known
        group = self._groups[number]
        if self._left <= 0 or len(group) < 2:
            return {}
        seen = ((each, self._exported(each)) for each in group)
        ranked = [
            (_rank(each, reach, namespace), each)
            for each, reach in seen
            if reach & {namespace, _ALL}
        ]
        order = [each for _, each in sorted(ranked, key=lambda each: each[0])]
        self._left -= len(group) + sum(_weight(each.spec) for each in order)
        names = [f"{each.namespace}/{each.name}" for each in order]
        losses = self._losing([each.spec for each in order])
        view = self._known[key] = {
            order[place]: _NamedLoss(
                loss.whole, {path: names[by] for path, by in loss.parts.items()}
            )
            for place, loss in losses.items()
        }
        return view


_NOTHING = _NamedLoss(whole=False, parts={})


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
    own = next((at for at, each in enumerate(hosts) if each == host or has(each, host)), None)
    return ("spec", "hosts") if own is None else ("spec", "hosts", own)
