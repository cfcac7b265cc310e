"""Rules as values, of which nft and iptables are two ways of writing.

The walk is the kernel's: chains of a hook in the order of their tables, the rules of a chain from
the first, `goto` without and `jump` with a way back.
"""

from __future__ import annotations

from enum import IntEnum, StrEnum

from mesh_traffic_capture._value import value
from mesh_traffic_capture.config import IPNetwork


class Family(IntEnum):
    """An address family."""

    IPV4 = 4
    IPV6 = 6


class Protocol(StrEnum):
    """A protocol above IP."""

    TCP = "tcp"
    UDP = "udp"


class ConnectionState(StrEnum):
    """The state of a packet's connection, by conntrack."""

    NEW = "new"
    ESTABLISHED = "established"
    RELATED = "related"
    INVALID = "invalid"


class Table(StrEnum):
    """The tables of iptables; in nft, the types and priorities of chains."""

    RAW = "raw"
    MANGLE = "mangle"
    NAT = "nat"


class Hook(StrEnum):
    """Where the kernel asks rules: what comes in, and what a process here sends."""

    PREROUTING = "prerouting"
    OUTPUT = "output"


@value
class Match:
    """Conditions on a packet; a field at its default asks nothing. A set: one of these."""

    family: Family | None = None
    protocol: Protocol | None = None
    in_interface: str = ""
    """A `+` at the end: every name that begins so. Likewise for `out_interface`."""
    out_interface: str = ""
    source: tuple[IPNetwork, ...] = ()
    """Networks of one address family, which `family` names; none lies in another."""
    destination: tuple[IPNetwork, ...] = ()
    not_destination: IPNetwork | None = None
    ports: frozenset[int] = frozenset()
    """Destination ports, of the protocol that is named."""
    not_ports: frozenset[int] = frozenset()
    source_port: int | None = None
    uids: frozenset[int] = frozenset()
    """Users that opened the packet's socket; a packet without one matches none."""
    gids: frozenset[int] = frozenset()
    mark: int | None = None
    not_mark: int | None = None
    connection_mark: int | None = None
    states: frozenset[ConnectionState] = frozenset()


class VerdictKind(StrEnum):
    """The kinds of verdict."""

    RETURN = "return"
    """Go back to where the jump was; without one, this table leaves the packet as it is."""
    ACCEPT = "accept"
    """This table leaves the packet as it is."""
    DROP = "drop"
    GOTO = "goto"
    JUMP = "jump"
    REDIRECT = "redirect"
    """The destination becomes `port` of this machine."""
    TPROXY = "tproxy"
    """The socket at `port` gets the packet, unchanged and marked; without one, it is dropped."""
    SET_MARK = "set-mark"
    """The walk goes on, as with the three below."""
    SAVE_MARK = "save-mark"
    """The connection gets the packet's mark."""
    RESTORE_MARK = "restore-mark"
    """The packet gets the connection's mark."""
    SET_ZONE = "set-zone"
    """The packet's connection is looked for in this zone of conntrack; the first zone stays."""


@value
class Verdict:
    """The thing that a rule does with a packet that matches."""

    kind: VerdictKind
    chain: str = ""
    port: int = 0
    mark: int = 0
    zone: int = 0


@value
class Rule:
    """One rule; `name` says what it is for and is unique for a purpose, not within the rules."""

    name: str
    match: Match = Match()
    verdict: Verdict


@value
class Chain:
    """Rules in order; a chain without a hook is walked by jumps only."""

    name: str
    table: Table
    hook: Hook | None = None
    rules: tuple[Rule, ...] = ()


@value
class RuleSet:
    """All rules of a configuration."""

    chains: tuple[Chain, ...]
    ipv6: bool
    """Whether IPv6 is matched at all."""
    tproxy_mark: int | None = None
    """The mark by which the kernel must route to the proxy, if it must."""
    tproxy_table: int | None = None

    def chain(self, name: str) -> Chain:
        """Return a chain by its name; raises KeyError."""
        for each in self.chains:
            if each.name == name:
                return each
        raise KeyError(name)

    def hooked(self, hook: Hook) -> tuple[Chain, ...]:
        """Return the chains that a hook's packets walk, in order."""
        order = list(Table)
        found = [chain for chain in self.chains if chain.hook is hook]
        return tuple(sorted(found, key=lambda chain: order.index(chain.table)))

    def table_chains(self, table: Table) -> tuple[Chain, ...]:
        """Return the chains of a table."""
        return tuple(chain for chain in self.chains if chain.table is table)


RETURN = Verdict(kind=VerdictKind.RETURN)
ACCEPT = Verdict(kind=VerdictKind.ACCEPT)
DROP = Verdict(kind=VerdictKind.DROP)
SAVE_MARK = Verdict(kind=VerdictKind.SAVE_MARK)
RESTORE_MARK = Verdict(kind=VerdictKind.RESTORE_MARK)


def goto(chain: str) -> Verdict:
    """Return the verdict that goes on in a chain, without a way back into this one."""
    return Verdict(kind=VerdictKind.GOTO, chain=chain)


def jump(chain: str) -> Verdict:
    """Return the verdict that walks a chain, and then goes on here."""
    return Verdict(kind=VerdictKind.JUMP, chain=chain)


def redirect(port: int) -> Verdict:
    """Return the verdict that redirects to a port of this machine."""
    return Verdict(kind=VerdictKind.REDIRECT, port=port)
