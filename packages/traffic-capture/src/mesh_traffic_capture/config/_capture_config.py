"""The traffic that is to be redirected, by numbers and addresses: names were looked up before."""

from __future__ import annotations

from enum import Enum, StrEnum
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network

from mesh_traffic_capture._value import value

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Final, TypeAlias

IPAddress: TypeAlias = IPv4Address | IPv6Address
IPNetwork: TypeAlias = IPv4Network | IPv6Network


class All(Enum):
    """The type of `ALL`."""

    ALL = "*"


ALL: Final = All.ALL
"""All ports, ranges, groups or DNS servers, where some may be named."""

Ports: TypeAlias = frozenset[int] | All
Ranges: TypeAlias = tuple[IPNetwork, ...] | All
Groups: TypeAlias = frozenset[int] | All

DNS_PORT: Final = 53
PASSED_ON_IPV4: Final = IPv4Address("127.0.0.6")
"""Envoy's source address of inbound connections that it passes on to the application (Istio's)."""
PASSED_ON_IPV6: Final = IPv6Address("::6")
LOOPBACK_IPV4: Final = IPv4Network("127.0.0.1/32")
LOOPBACK_IPV6: Final = IPv6Network("::1/128")
SELF_CALL_MARK: Final = 1338
"""In TPROXY mode, marks what Envoy sends to its own workload; Istio's number, fixed as there."""
MOST_INCLUDED_GROUPS: Final = 64
"""As many as Istio takes."""
MOST_ITEMS: Final = 10_000
"""Of one list: with iptables, each is a rule that packets pass one by one."""
_MOST_ID: Final = 2**32 - 2
"""2**32 - 1 is the kernel's "no user"."""
_MAIN_TABLES: Final = range(253, 256)
"""default, main and local, which are the kernel's."""
_LETTERS: Final = frozenset("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_.@~=-")
"""Of a name of an interface."""


class Mode(StrEnum):
    """How inbound connections get to the proxy; outbound ones are always redirected."""

    REDIRECT = "REDIRECT"
    """Their destination becomes the proxy's; the application sees the proxy's address."""
    TPROXY = "TPROXY"
    """They keep both addresses; the proxy needs CAP_NET_ADMIN."""


@value
class DnsCapture:
    """Which DNS queries go to the agent."""

    servers: tuple[IPAddress, ...] | All
    """Queries to these servers, those of resolv.conf as a rule; ALL: to any.

    With ALL, the queries of a resolver on this machine are redirected as well, which makes a loop
    if the agent asks that resolver.
    """
    port: int = 15053
    """Where the agent listens, on 127.0.0.1 and, if IPv6 is redirected, on ::1."""


@value
class CaptureConfig:
    """All that is redirected, and whose traffic is not; by default, only the proxy's self-calls."""

    mode: Mode = Mode.REDIRECT
    """How inbound connections are redirected."""
    ipv6: bool = False
    """Whether IPv6 is redirected too. If not, no rule matches IPv6: it goes past the proxy."""
    outbound_port: int = 15001
    """Where the proxy takes outbound connections, on the wildcard address."""
    inbound_port: int = 15006
    """Where the proxy takes inbound connections, on the wildcard address."""
    tunnel_port: int = 15008
    """Inbound connections to this port are the proxy's own (HBONE): never redirected."""
    proxy_uids: frozenset[int] = frozenset({1337})
    """A socket that one of these users opened is the proxy's, and so never redirected."""
    proxy_gids: frozenset[int] = frozenset({1337})
    """Likewise of these groups; supplementary groups don't count."""
    inbound_ports: Ports = frozenset()
    """Inbound TCP that is redirected. Empty: none."""
    excluded_inbound_ports: frozenset[int] = frozenset()
    """Of all ports, those that are not; without effect unless `inbound_ports` is ALL."""
    outbound_ranges: Ranges = ()
    """Destinations to which TCP is redirected. Empty: none, but for `outbound_ports`."""
    excluded_outbound_ranges: tuple[IPNetwork, ...] = ()
    """Destinations to which nothing but DNS is redirected; stronger than `outbound_ports`."""
    outbound_ports: frozenset[int] = frozenset()
    """TCP ports that are redirected whatever the destination."""
    excluded_outbound_ports: frozenset[int] = frozenset()
    """TCP and UDP ports that are never redirected; the strongest."""
    excluded_interfaces: tuple[str, ...] = ()
    """Nothing that comes or goes by these is redirected. `eth+` is every name that begins so."""
    virtual_interfaces: tuple[str, ...] = ()
    """TCP that comes in by these, from virtual machines, is treated as outbound."""
    groups: Groups = ALL
    """Only what sockets of these groups send is redirected, as far as it isn't the proxy's."""
    excluded_groups: frozenset[int] = frozenset()
    """What sockets of these groups send is not; read only while `groups` is ALL."""
    loopback: IPv4Network = LOOPBACK_IPV4
    """IPv4 destinations that are the machine itself: outbound traffic to them is not redirected."""
    dns: DnsCapture | None = None
    """Which DNS queries are redirected, over UDP and TCP."""
    tproxy_mark: int = 1337
    """Marks what belongs to TPROXY; Envoy's original_src filter sets the same number."""
    tproxy_table: int = 133
    """The routing table that brings marked packets to the proxy."""
    drop_invalid: bool = False
    """Whether inbound packets that conntrack finds invalid are dropped."""

    def mistakes(self) -> tuple[str, ...]:
        """Return all that can't be, a sentence each; empty if the configuration is right."""
        return (*_port_mistakes(self), *_owner_mistakes(self), *_other_mistakes(self))

    def notes(self) -> tuple[str, ...]:
        """Return what has no effect, or probably not the one that was meant, a sentence each."""
        return tuple(_notes(self))

    def outbound_ranges_have_loopback(self) -> bool:
        """Return whether a named range is loopback: then calls to oneself are redirected too."""
        return self.outbound_ranges is not ALL and any(
            each.is_loopback for each in self.outbound_ranges
        )


def is_port(value: int) -> bool:
    """Return whether a number is a port that something can listen on."""
    return 1 <= value <= 65535


def interface_mistake(name: str) -> str | None:
    """Return why a text is no name of an interface, in a subordinate clause; None if it is one."""
    letters = name.removesuffix("+")
    known = 1 <= len(letters) <= 15 and _LETTERS.issuperset(letters)
    if known and not letters.startswith("=") and name not in {".", ".."}:
        return None
    return (
        "a name of an interface has 1 to 15 letters, digits and characters of '_.@~=-', "
        "and a '+' at its end stands for every name that begins so"
    )


def _port_mistakes(config: CaptureConfig) -> Iterator[str]:
    listening = {
        "outbound_port": config.outbound_port,
        "inbound_port": config.inbound_port,
        "tunnel_port": config.tunnel_port,
    }
    if config.dns is not None:
        listening["dns.port"] = config.dns.port
    for name, port in listening.items():
        if not is_port(port):
            yield f"{name} is {port}: a port is a number from 1 to 65535"
    names = list(listening)
    for index, name in enumerate(names):
        for other in names[:index]:
            if listening[name] == listening[other]:
                yield f"{other} and {name} are both {listening[name]}: they must differ"
    for name in (
        "inbound_ports",
        "excluded_inbound_ports",
        "outbound_ports",
        "excluded_outbound_ports",
    ):
        ports = getattr(config, name)
        if ports is ALL:
            continue
        for port in sorted(ports):
            if not is_port(port):
                yield f"{name} has {port}: a port is a number from 1 to 65535"
        yield from _too_many(name, len(ports))


def _owner_mistakes(config: CaptureConfig) -> Iterator[str]:
    if not config.proxy_uids and not config.proxy_gids:
        yield (
            "proxy_uids and proxy_gids are both empty: the proxy's own traffic would be sent back "
            "to it without an end; name its user or its group"
        )
    for name in ("proxy_uids", "proxy_gids", "groups", "excluded_groups"):
        ids = getattr(config, name)
        if ids is ALL:
            continue
        for each in sorted(ids):
            if not 0 <= each <= _MOST_ID:
                yield f"{name} has {each}: an id is a number from 0 to {_MOST_ID}"
        yield from _too_many(name, len(ids))
    if config.groups is not ALL and len(config.groups) > MOST_INCLUDED_GROUPS:
        yield (
            f"groups has {len(config.groups)} groups: at most {MOST_INCLUDED_GROUPS} can be named"
        )


def _other_mistakes(config: CaptureConfig) -> Iterator[str]:
    for name in ("excluded_interfaces", "virtual_interfaces"):
        interfaces = getattr(config, name)
        for each in interfaces:
            if (why := interface_mistake(each)) is not None:
                yield f"{name} has {each!r}: {why}"
        yield from _too_many(name, len(interfaces))
    for name in ("outbound_ranges", "excluded_outbound_ranges"):
        ranges = getattr(config, name)
        if ranges is not ALL:
            yield from _too_many(name, len(ranges))
    if not (config.loopback.is_loopback and config.loopback.prefixlen >= 8):
        yield f"loopback is {config.loopback}: it must be a part of 127.0.0.0/8"
    if config.dns is not None and config.dns.servers is not ALL:
        yield from _too_many("dns.servers", len(config.dns.servers))
        if not config.dns.servers:
            yield "dns.servers is empty: name the servers, ALL, or leave dns out"
    if not 1 <= config.tproxy_mark <= 2**32 - 1 or config.tproxy_mark == SELF_CALL_MARK:
        yield (
            f"tproxy_mark is {config.tproxy_mark}: it is a number from 1 to {2**32 - 1} other than "
            f"{SELF_CALL_MARK}, which marks the proxy's calls of its own workload"
        )
    if not 1 <= config.tproxy_table <= 2**32 - 1 or config.tproxy_table in _MAIN_TABLES:
        yield (
            f"tproxy_table is {config.tproxy_table}: it is a number from 1 to {2**32 - 1} other "
            "than 253, 254 and 255, which are the kernel's own tables"
        )


def _too_many(name: str, count: int) -> Iterator[str]:
    if count > MOST_ITEMS:
        yield f"{name} has {count} items: at most {MOST_ITEMS} can be named"


def _notes(config: CaptureConfig) -> Iterator[str]:
    if config.excluded_inbound_ports and config.inbound_ports is not ALL:
        yield (
            "excluded_inbound_ports has no effect: it is read only if all inbound ports are "
            "redirected"
        )
    if config.excluded_groups and config.groups is not ALL:
        yield "excluded_groups has no effect: it is read only while all groups are redirected"
    if config.groups is not ALL and not config.groups:
        yield (
            "groups is empty: no outbound traffic is redirected but the proxy's calls of its own "
            "workload"
        )
    if both := config.outbound_ports & config.excluded_outbound_ports:
        yield f"outbound_ports has {_listed(both)}, which excluded_outbound_ports takes away"
    if config.dns is not None and DNS_PORT in config.excluded_outbound_ports:
        yield "dns has no effect: port 53 is one of excluded_outbound_ports"
    if config.dns is not None and config.dns.servers is ALL:
        yield (
            "the DNS queries of a resolver on this machine (systemd-resolved, dnsmasq) are "
            "redirected too, as those to all servers are: the agent must not ask that resolver"
        )
    if config.inbound_ports is not ALL and config.tunnel_port in config.inbound_ports:
        yield (
            f"inbound_ports has {config.tunnel_port}, the tunnel's port, which is never redirected"
        )
    if not config.ipv6 and any(
        each.version == 6
        for ranges in (config.outbound_ranges, config.excluded_outbound_ranges)
        if ranges is not ALL
        for each in ranges
    ):
        yield "the IPv6 ranges have no effect: IPv6 is not redirected"


def _listed(ports: frozenset[int]) -> str:
    return ", ".join(str(port) for port in sorted(ports))
