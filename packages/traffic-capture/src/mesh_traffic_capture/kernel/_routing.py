"""The routing of TPROXY, and the address that Envoy passes IPv6 connections on from.

A packet with the mark is for this machine, whatever its destination: a rule of the routing policy
leads it to a table that has one route, `local default dev lo`.
"""

from __future__ import annotations

# `socket` takes longer to load than the kernel to answer, and adds nothing that is needed here.
import _socket
import struct
from ipaddress import ip_address

from mesh_traffic_capture._value import value
from mesh_traffic_capture.config import PASSED_ON_IPV6, IPAddress
from mesh_traffic_capture.kernel._netlink import ask, attribute, attributes, change, dump
from mesh_traffic_capture.rules import Family

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Final

PASSED_ON_ADDRESS: Final = f"{PASSED_ON_IPV6}/128"
_NEW_ADDRESS, _DELETE_ADDRESS, _GET_ADDRESS = 20, 21, 22
_NEW_ROUTE, _DELETE_ROUTE, _GET_ROUTE = 24, 25, 26
_NEW_RULE, _DELETE_RULE, _GET_RULE = 32, 33, 34
_ADDRESS: Final = struct.Struct("=BBBBI")
_TWELVE: Final = struct.Struct("=BBBBBBBBI")
"""rtmsg and fib_rule_hdr: family, lengths, table, protocol and scope, type or action, flags."""
_U32: Final = struct.Struct("=I")
_FULL: Final = 0xFFFFFFFF
_LOCAL, _HOST_SCOPE, _LINK_SCOPE, _BOOT = 2, 254, 253, 3
_TO_TABLE: Final = 1
_OIF, _ROUTE_TABLE, _PRIORITY, _MARK, _RULE_TABLE, _MASK = 4, 15, 6, 10, 15, 16
_NO_DAD: Final = 0x02


@value
class MarkRoute:
    """Marked packets of an address family are for this machine."""

    family: Family
    mark: int
    table: int

    def __str__(self) -> str:
        """Return the commands of `ip` that would make it."""
        return (
            f"ip -{self.family} rule add fwmark {self.mark} lookup {self.table}; "
            f"ip -{self.family} route add local default dev lo table {self.table}"
        )


def addresses() -> Iterator[tuple[IPAddress, bool]]:
    """Yield the addresses of all interfaces, and whether others can reach them."""
    for body in dump(_GET_ADDRESS, _ADDRESS.pack(0, 0, 0, 0, 0)):
        family, _, _, scope, _ = _ADDRESS.unpack_from(body)
        found = attributes(body[_ADDRESS.size :])
        packed = found.get(2) or found.get(1)
        if family in {_socket.AF_INET, _socket.AF_INET6} and packed:
            address = ip_address(packed)
            reachable = scope not in {_HOST_SCOPE, _LINK_SCOPE}
            yield address, reachable and not address.is_loopback and not address.is_link_local


def out_interface(destination: IPAddress) -> str | None:
    """Return the interface by which packets to an address leave; None: there is no route."""
    family = Family(destination.version)
    head = _TWELVE.pack(_number(family), destination.max_prefixlen, 0, 0, 0, 0, 0, 0, 0)
    answer = ask(_GET_ROUTE, head + attribute(1, destination.packed))
    if answer is None:
        return None
    index = _u32(attributes(answer[_TWELVE.size :]).get(_OIF))
    try:
        return _socket.if_indextoname(index) if index else None
    except OSError:
        return None


def mark_routes() -> tuple[MarkRoute, ...]:
    """Return which marked packets are for this machine; one that is there twice, twice."""
    routes = []
    for family in Family:
        rules = list(_mark_rules(family))
        local = set(_local_tables(family)) if rules else set()
        routes += [
            MarkRoute(family=family, mark=mark, table=table)
            for mark, table in rules
            if table in local
        ]
    return tuple(routes)


def add_mark_route(route: MarkRoute) -> None:
    """Add a route and its rule, unless they are there."""
    change(_NEW_ROUTE, _route(route), create=True)
    if (route.mark, route.table) not in set(_mark_rules(route.family)):
        change(_NEW_RULE, _rule(route), create=True)


def remove_mark_route(route: MarkRoute) -> None:
    """Remove a rule, as often as it is there, and its route."""
    for _ in range(list(_mark_rules(route.family)).count((route.mark, route.table))):
        change(_DELETE_RULE, _rule(route))
    change(_DELETE_ROUTE, _route(route))


def has_passed_on_address() -> bool:
    """Return whether Envoy can pass IPv6 connections on; IPv4 has a whole range for loopback."""
    return any(address == PASSED_ON_IPV6 for address, _ in addresses())


def add_passed_on_address() -> None:
    """Give lo the address."""
    change(_NEW_ADDRESS, _passed_on(), create=True)


def remove_passed_on_address() -> None:
    """Take the address from lo."""
    change(_DELETE_ADDRESS, _passed_on())


def _passed_on() -> bytes:
    head = _ADDRESS.pack(_socket.AF_INET6, 128, _NO_DAD, 0, _socket.if_nametoindex("lo"))
    packed = PASSED_ON_IPV6.packed
    return head + attribute(2, packed) + attribute(1, packed)


def _mark_rules(family: Family) -> Iterator[tuple[int, int]]:
    """Yield mark and table of each rule that asks for a mark and nothing else."""
    for body in dump(_GET_RULE, _TWELVE.pack(_number(family), 0, 0, 0, 0, 0, 0, 0, 0)):
        number, to_length, from_length, tos, table, _, _, action, flags = _TWELVE.unpack_from(body)
        found = attributes(body[_TWELVE.size :])
        mark, mask = _u32(found.get(_MARK)), _u32(found.get(_MASK), _FULL)
        plain = not (to_length or from_length or tos or flags) and mask == _FULL
        if number == _number(family) and mark and plain and action == _TO_TABLE:
            yield mark, _u32(found.get(_RULE_TABLE), table)


def _local_tables(family: Family) -> Iterator[int]:
    """Yield the tables that have the route `local default dev lo`."""
    lo = _socket.if_nametoindex("lo")
    for body in dump(_GET_ROUTE, _TWELVE.pack(_number(family), 0, 0, 0, 0, 0, 0, 0, 0)):
        number, to_length, _, _, table, _, _, kind, _ = _TWELVE.unpack_from(body)
        found = attributes(body[_TWELVE.size :])
        default = number == _number(family) and to_length == 0
        if kind == _LOCAL and default and _u32(found.get(_OIF)) == lo:
            yield _u32(found.get(_ROUTE_TABLE), table)


def _route(route: MarkRoute) -> bytes:
    # An IPv6 route has no scope of its own.
    scope = _HOST_SCOPE if route.family is Family.IPV4 else 0
    head = _TWELVE.pack(_number(route.family), 0, 0, 0, 0, _BOOT, scope, _LOCAL, 0)
    lo = _socket.if_nametoindex("lo")
    return head + attribute(_OIF, _U32.pack(lo)) + attribute(_ROUTE_TABLE, _U32.pack(route.table))


def _rule(route: MarkRoute) -> bytes:
    head = _TWELVE.pack(_number(route.family), 0, 0, 0, 0, 0, 0, _TO_TABLE, 0)
    return (
        head
        + attribute(_MARK, _U32.pack(route.mark))
        + attribute(_MASK, _U32.pack(_FULL))
        + attribute(_RULE_TABLE, _U32.pack(route.table))
    )


def _number(family: Family) -> int:
    return _socket.AF_INET if family is Family.IPV4 else _socket.AF_INET6


def _u32(value: bytes | None, otherwise: int = 0) -> int:
    return int(_U32.unpack(value)[0]) if value is not None and len(value) == 4 else otherwise
