"""Connections that show whether the rules are there, chosen by what the rules should do; pure."""

from __future__ import annotations

from enum import StrEnum
from ipaddress import ip_address

from mesh_traffic_capture._value import value
from mesh_traffic_capture.config import (
    ALL,
    DNS_PORT,
    PASSED_ON_IPV4,
    PASSED_ON_IPV6,
    CaptureConfig,
    IPAddress,
)
from mesh_traffic_capture.rules import (
    Direction,
    Explanation,
    Family,
    Outcome,
    Packet,
    Protocol,
    RuleSet,
    explain,
)

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from typing import Final

_UNUSED: Final = {
    Family.IPV4: tuple(map(ip_address, ("198.51.100.1", "203.0.113.1", "192.0.2.1"))),
    Family.IPV6: (ip_address("2001:db8::1"),),
}
"""Addresses of documentation (RFC 5737, RFC 3849): a packet that gets out harms no host."""
_IDS: Final = (65534, 1000, 1, 0)


class Way(StrEnum):
    """Traffic that the rules redirect."""

    INBOUND = "inbound"
    """The proxy calls its own workload, which is redirected as inbound traffic is."""
    OUTBOUND = "outbound"
    DNS = "dns"


@value
class Probe:
    """A connection or a datagram, and where it should arrive."""

    way: Way
    family: Family
    packet: Packet
    port: int
    explanation: Explanation


@value
class NoProbe:
    """A way for which there is no connection to try, and why."""

    way: Way
    family: Family
    why: str


def probes(
    config: CaptureConfig,
    rules: RuleSet,
    *,
    port: int,
    route: Callable[[IPAddress], str | None],
) -> Iterator[Probe | NoProbe]:
    """Yield what to try; `route` says by which interface an address is reached."""
    for family in (Family.IPV4, Family.IPV6) if config.ipv6 else (Family.IPV4,):
        yield _inbound(config, rules, family, port)
        yield _outbound(config, rules, family, port, route)
        if config.dns is not None:
            yield _dns(config, rules, family, route)


def _inbound(config: CaptureConfig, rules: RuleSet, family: Family, port: int) -> Probe | NoProbe:
    uid = min(config.proxy_uids, default=_not_in(config.proxy_uids))
    gid = min(config.proxy_gids, default=_not_in(config.proxy_gids))
    packet = Packet(
        direction=Direction.OUTBOUND,
        interface="lo",
        protocol=Protocol.TCP,
        destination=PASSED_ON_IPV4 if family is Family.IPV4 else PASSED_ON_IPV6,
        destination_port=port,
        source=ip_address("127.0.0.1" if family is Family.IPV4 else "::1"),
        uid=uid,
        gid=gid,
    )
    return _probe(
        Way.INBOUND, family, [packet], rules, port=config.inbound_port, what="the proxy calls by lo"
    )


def _outbound(
    config: CaptureConfig,
    rules: RuleSet,
    family: Family,
    port: int,
    route: Callable[[IPAddress], str | None],
) -> Probe | NoProbe:
    addresses = list(_UNUSED[family])
    if config.outbound_ranges is not ALL:
        addresses += [each[-1] for each in config.outbound_ranges if each.version == family]
    routed = [(address, name) for address in addresses[:20] if (name := route(address))]
    if not routed and addresses:
        return NoProbe(
            way=Way.OUTBOUND,
            family=family,
            why="there is no route, and the kernel looks for one before it asks the rules: add a "
            "default route, over any interface but lo",
        )
    packets = [
        _sent(config, address, name, Protocol.TCP, each)
        for address, name in routed
        for each in (port, *sorted(config.outbound_ports))
    ]
    return _probe(
        Way.OUTBOUND, family, packets, rules, port=config.outbound_port, what="applications send"
    )


def _dns(
    config: CaptureConfig,
    rules: RuleSet,
    family: Family,
    route: Callable[[IPAddress], str | None],
) -> Probe | NoProbe:
    if config.dns is None:
        return NoProbe(way=Way.DNS, family=family, why="no DNS queries are redirected")
    servers = _UNUSED[family] if config.dns.servers is ALL else config.dns.servers
    packets = [
        _sent(config, server, name, Protocol.UDP, DNS_PORT)
        for server in servers
        if server.version == family and (name := route(server))
    ]
    return _probe(Way.DNS, family, packets, rules, port=config.dns.port, what="applications ask")


def _sent(
    config: CaptureConfig,
    destination: IPAddress,
    interface: str,
    protocol: Protocol,
    port: int,
) -> Packet:
    others = config.proxy_gids | config.excluded_groups
    gids = () if config.groups is ALL else tuple(sorted(config.groups - config.proxy_gids))
    return Packet(
        direction=Direction.OUTBOUND,
        interface=interface,
        protocol=protocol,
        destination=destination,
        destination_port=port,
        uid=_not_in(config.proxy_uids),
        gid=gids[0] if gids else _not_in(others),
    )


def _not_in(ids: frozenset[int]) -> int:
    """Return an id that is none of these."""
    candidates: tuple[int, ...] = (*_IDS, *range(2, len(ids) + 3))
    return next(each for each in candidates if each not in ids)


def _probe(
    way: Way, family: Family, packets: list[Packet], rules: RuleSet, *, port: int, what: str
) -> Probe | NoProbe:
    for packet in packets:
        found = explain(rules, packet)
        if found.outcome is Outcome.REDIRECTED and found.port == port:
            return Probe(way=way, family=family, packet=packet, port=port, explanation=found)
    return NoProbe(
        way=way,
        family=family,
        why=f"of what {what} by IPv{family}, no connection that could be tried is redirected",
    )
