"""Which outbound listeners a proxy gets, when services want the same address and port."""

from collections.abc import Iterable
from dataclasses import dataclass

from mesh_discovery import _names as names
from mesh_discovery._listeners import HttpOutbound, Outbound, TcpOutbound
from mesh_discovery._model import Service
from mesh_discovery._ports import Protocol


@dataclass(frozen=True, slots=True, kw_only=True)
class Conflict:
    """A listener that a service would need and an older one has."""

    bind: str
    port: int
    host: str


def plan_outbound(
    services: Iterable[Service],
    *,
    address: str,
    http_proxy_port: int | None = None,
    taken: frozenset[tuple[str, int]] = frozenset(),
) -> tuple[tuple[Outbound, ...], tuple[Conflict, ...]]:
    """Share out addresses, services oldest first; `taken` are not to be had.

    HTTP services share one listener a port on `address`. A service of any other protocol has its
    own, on its virtual addresses if it has any. The result has the TCP listeners first, then HTTP,
    each in order, then the HTTP proxy.
    """
    owners: dict[tuple[str, int], Outbound] = {}
    conflicts: list[Conflict] = []
    for service in services:
        for port in service.ports:
            if port.protocol is Protocol.UDP:
                continue
            for wanted in _wanted(service, port.number, port.protocol, address):
                place = (wanted.bind, wanted.port)
                if place in taken or owners.setdefault(place, wanted) != wanted:
                    conflicts.append(
                        Conflict(bind=wanted.bind, port=wanted.port, host=service.host)
                    )
    listeners = sorted(
        owners.values(), key=lambda each: (isinstance(each, HttpOutbound), each.bind, each.port)
    )
    if http_proxy_port is not None:
        place = (address, http_proxy_port)
        if place in taken or place in owners:
            conflicts.append(
                Conflict(bind=address, port=http_proxy_port, host=names.HTTP_PROXY_ROUTE)
            )
        else:
            listeners.append(
                HttpOutbound(bind=address, port=http_proxy_port, route=names.HTTP_PROXY_ROUTE)
            )
    return tuple(listeners), tuple(conflicts)


def _wanted(service: Service, number: int, protocol: Protocol, address: str) -> Iterable[Outbound]:
    if protocol.is_http:
        yield HttpOutbound(bind=address, port=number, route=str(number))
        return
    cluster = f"outbound|{number}||{service.host}"
    for bind in service.virtual_addresses or (address,):
        yield TcpOutbound(
            bind=bind,
            port=number,
            cluster=cluster,
            is_virtual_address=bool(service.virtual_addresses),
        )
