"""Finds the routes of VirtualServices that are behind those of others in one virtual host.

Pure decisions about specs that are in the order in which they win.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Generic, NamedTuple, TypeVar

import msgspec

from istio_config.kinds.virtual_service import (
    HttpMatch,
    TcpMatch,
    TlsMatch,
    VirtualServiceSpec,
    never_reached,
    takes_everything,
)
from mesh_configfile import FieldPath
from mesh_model import MESH

_Match = TypeVar("_Match", HttpMatch, TcpMatch)


class Loss(NamedTuple):
    """The fields of one of several specs that others take.

    whole: whether it gets nothing at all. parts: with the place of the spec that takes it.
    """

    whole: bool
    parts: Mapping[FieldPath, int]


def without_requests(specs: Sequence[VirtualServiceSpec]) -> Mapping[int, Loss]:
    """Return the HTTP routes that sidecars do not have: the first with routes has the host."""
    first = next((at for at, each in enumerate(specs) if _always_applies(each)), len(specs))
    loss = Loss(whole=True, parts={("http",): first})
    return {at: loss for at in range(first + 1, len(specs)) if specs[at].http}


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


def shadowed(specs: Sequence[VirtualServiceSpec], *, gateway: str) -> Mapping[int, Loss]:
    """Return the HTTP matches that are behind those of others which take their requests."""
    some: list[_Placed[HttpMatch]] = []
    rest: list[_Placed[HttpMatch]] = []
    for at, spec in enumerate(specs):
        for path, match in _http(spec, gateway):
            (rest if takes_everything(match) else some).append(_Placed(at, path, match))
    # One look at all of them is enough: no match with a condition, of a later one, takes all that a
    # match without conditions does.
    both = [*some, *rest]
    hidden = never_reached([each.match for each in both])
    reached = {each.at for index, each in enumerate(both) if index not in hidden}
    taken = [(both[index].at, both[index].path, both[by].at) for index, by in hidden.items()]
    return _losses_by_place(sorted(taken), lambda at: at not in reached)


class _Placed(NamedTuple, Generic[_Match]):
    """A match of one of several specs."""

    at: int
    path: FieldPath
    match: _Match


def _losses_by_place(
    taken: Iterable[tuple[int, FieldPath, int]], is_whole: Callable[[int], bool]
) -> Mapping[int, Loss]:
    """Return what specs lose to others; taken: place of the loser, field, place of the winner."""
    found: dict[int, dict[FieldPath, int]] = {}
    for at, path, by in taken:
        if at != by:
            found.setdefault(at, {})[path] = by
    return {at: Loss(is_whole(at), parts) for at, parts in found.items()}


def without_connections(specs: Sequence[VirtualServiceSpec], *, gateway: str) -> Mapping[int, Loss]:
    """Return the TCP matches that are behind those of others which take their connections."""
    taken: dict[int | None, int] = {}  # by ports; None: all
    lost: list[tuple[int, FieldPath, int]] = []
    reached: set[int] = set()
    for at, spec in enumerate(specs):
        own = list(_tcp(spec, gateway))
        for path, match in own:
            by = taken.get(None, taken.get(match.port))
            if by is None:
                reached.add(at)
            else:
                lost.append((at, path, by))
        for _, match in own:
            if _is_open(match):
                taken.setdefault(match.port, at)
    return _losses_by_place(lost, lambda at: at not in reached)


def without_names(specs: Sequence[VirtualServiceSpec], *, gateway: str) -> Mapping[int, Loss]:
    """Return the SNI names that others before have, for all clients."""
    taken: dict[tuple[str, int | None], int] = {}
    lost: list[tuple[int, FieldPath, int]] = []
    reached: set[int] = set()
    for at, spec in enumerate(specs):
        own = list(_tls(spec, gateway))
        for path, match in own:
            for index, sni in enumerate(match.sni_hosts):
                by = taken.get((sni, None), taken.get((sni, match.port)))
                if by is None:
                    reached.add(at)
                else:
                    lost.append((at, (*path, "sniHosts", index), by))
        for _, match in own:
            for sni in match.sni_hosts if _is_open(match) else ():
                taken.setdefault((sni, match.port), at)
    return _losses_by_place(lost, lambda at: at not in reached)


def _http(spec: VirtualServiceSpec, gateway: str) -> Iterator[tuple[FieldPath, HttpMatch]]:
    for index, route in enumerate(spec.http):
        for path, match in _matches(("http", index), route.match, HttpMatch()):
            if not match.gateways or gateway in match.gateways:
                yield path, msgspec.structs.replace(match, gateways=())


def _tcp(spec: VirtualServiceSpec, gateway: str) -> Iterator[tuple[FieldPath, TcpMatch]]:
    for index, route in enumerate(spec.tcp):
        for path, match in _matches(("tcp", index), route.match, TcpMatch()):
            if not match.gateways or gateway in match.gateways:
                yield path, match


def _tls(spec: VirtualServiceSpec, gateway: str) -> Iterator[tuple[FieldPath, TlsMatch]]:
    for index, route in enumerate(spec.tls):
        for at, match in enumerate(route.match):
            if not match.gateways or gateway in match.gateways:
                yield ("tls", index, "match", at), match


def _matches(
    path: FieldPath, matches: Sequence[_Match], everything: _Match
) -> Iterator[tuple[FieldPath, _Match]]:
    """Yield the matches of a route with their fields; if it has none, that of everything."""
    if not matches:
        yield path, everything
    for index, each in enumerate(matches):
        yield (*path, "match", index), each


def _is_open(match: TcpMatch | TlsMatch) -> bool:
    """Return whether a match holds for all clients, and to all addresses."""
    return not (match.destination_subnets or match.source_labels or match.source_namespace)
