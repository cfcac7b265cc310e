"""The routes of HTTP listeners: those of all HTTPRoutes and GRPCRoutes of a host, in one order."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import NamedTuple

from istio_config import ConfigObject
from istio_config.kinds.gateway_api.listeners import HTTP
from istio_config.kinds.virtual_service import (
    HttpDirectResponse,
    HttpMatch,
    HttpRoute,
    StringMatch,
    VirtualServiceSpec,
)
from mesh_model.gateway_api._known import Known
from mesh_model.gateway_api._listeners import ANY, BoundListener, covers
from mesh_model.gateway_api._virtual_services import age, virtual_service
from mesh_model.gateway_api.routes._precedence import Entry


class HttpAttached(NamedTuple):
    """A route at a listener, for some hosts."""

    item: ConfigObject
    bound: BoundListener
    hosts: tuple[str, ...]
    entries: tuple[Entry, ...]


def without_mixed_kinds(
    attached: Iterable[HttpAttached],
) -> tuple[list[HttpAttached], list[HttpAttached]]:
    """Return what is accepted and what is not: a host has HTTPRoutes or GRPCRoutes.

    The oldest route decides which.
    """
    accepted: list[HttpAttached] = []
    refused: list[HttpAttached] = []
    by_listener: dict[str, list[HttpAttached]] = {}
    for each in attached:
        by_listener.setdefault(each.bound.key, []).append(each)
    for same in by_listener.values():
        if len({each.item.kind for each in same}) < 2:
            accepted += same
            continue
        kept: list[HttpAttached] = []
        for each in sorted(same, key=lambda one: age(one.item)):
            clash = any(_clash(each, other) for other in kept)
            (refused if clash else kept).append(each)
        accepted += kept
    return accepted, refused


def _clash(one: HttpAttached, other: HttpAttached) -> bool:
    return one.item.kind != other.item.kind and any(
        covers(first, second) or covers(second, first)
        for first in one.hosts
        for second in other.hosts
    )


def http_virtual_services(
    attached: Sequence[HttpAttached], listeners: Sequence[BoundListener], known: Known
) -> Iterator[ConfigObject]:
    """Yield a VirtualService for each listener and host; listeners: all that are served."""
    narrower = _narrower_listeners(listeners)
    tables: dict[tuple[str, str], list[HttpAttached]] = {}
    for each in attached:
        others = narrower.get(each.bound.key, ())
        for host in each.hosts:
            # A request is for the listener with the most specific hostname, and no other.
            if not any(covers(other.listener.hostname or ANY, host) for other in others):
                tables.setdefault((each.bound.key, host), []).append(each)
    for (key, host), same in tables.items():
        parts = same[0].bound, *(each.entries for each in same)
        yield known.table(("http", key, host), parts, partial(_virtual_service, same, host))
    with_narrower = [each for others in narrower.values() for each in others]
    for bound in {each.key: each for each in with_narrower}.values():
        host = bound.listener.hostname or ANY
        if (bound.key, host) not in tables:
            yield _nothing_there(bound, host)


def _virtual_service(attached: Sequence[HttpAttached], host: str) -> ConfigObject:
    bound = attached[0].bound
    return virtual_service(
        [each.item for each in attached],
        namespace=bound.gateway.namespace,
        name=f"{bound.name}.{host}",
        spec=VirtualServiceSpec(
            hosts=(host,),
            gateways=(bound.key,),
            http=tuple(
                each.route
                for each in sorted(
                    (entry for one in attached for entry in one.entries), key=lambda one: one.key
                )
            ),
            export_to=("*",),
        ),
    )


def _narrower_listeners(
    listeners: Sequence[BoundListener],
) -> Mapping[str, Sequence[BoundListener]]:
    """Return the listeners that take requests from a wider one of their port, by the wider's key.

    Only where all share a route table, which plain HTTP does: TLS tells listeners apart by SNI.
    """
    found: dict[str, list[BoundListener]] = {}
    for wide in listeners:
        if wide.listener.protocol != HTTP:
            continue
        for each in listeners:
            if (
                each.listener.protocol == HTTP
                and each.gateway is wide.gateway
                and each.listener.port == wide.listener.port
                and each.listener.hostname != wide.listener.hostname
                and covers(wide.listener.hostname or ANY, each.listener.hostname or ANY)
            ):
                found.setdefault(wide.key, []).append(each)
    return found


def _nothing_there(bound: BoundListener, host: str) -> ConfigObject:
    """Answer with 404 where a listener has no route for its own hostname."""
    everything = HttpMatch(uri=StringMatch(prefix="/"))
    answer = HttpRoute(match=(everything,), direct_response=HttpDirectResponse(status=404))
    return virtual_service(
        [bound.gateway],
        namespace=bound.gateway.namespace,
        name=f"{bound.name}.{host}",
        spec=VirtualServiceSpec(
            hosts=(host,), gateways=(bound.key,), http=(answer,), export_to=("*",)
        ),
    )
