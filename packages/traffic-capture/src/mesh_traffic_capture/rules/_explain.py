"""The verdict of the rules on one packet, and which rule decides."""

from __future__ import annotations

from enum import StrEnum
from ipaddress import IPv6Address

from mesh_traffic_capture._value import replace, value
from mesh_traffic_capture.config import IPAddress
from mesh_traffic_capture.rules._meanings import meaning
from mesh_traffic_capture.rules._rule import (
    Chain,
    ConnectionState,
    Hook,
    Match,
    Protocol,
    Rule,
    RuleSet,
    Table,
    VerdictKind,
)

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Final

_LOOPBACK_INTERFACE: Final = "lo"


class Direction(StrEnum):
    """Which way a packet goes."""

    INBOUND = "inbound"
    """It comes in by an interface."""
    OUTBOUND = "outbound"
    """A process of this machine, or its kernel, sends it."""


@value
class Packet:
    """A packet as the rules see it first."""

    direction: Direction
    interface: str
    """By which it comes in, or would leave: the kernel chooses a route before it asks the rules.

    To an address of this machine, that is `lo`.
    """
    protocol: Protocol
    destination: IPAddress
    destination_port: int
    source: IPAddress | None = None
    """None: no address that a rule names."""
    source_port: int = 0
    uid: int | None = None
    """The user that opened the socket; None: the packet has no socket of this machine."""
    gid: int | None = None
    mark: int = 0
    connection_mark: int = 0
    state: ConnectionState = ConnectionState.NEW


class Outcome(StrEnum):
    """The end of a packet's way."""

    UNTOUCHED = "not redirected"
    REDIRECTED = "redirected"
    """Its destination is a port of this machine."""
    TPROXIED = "given to the proxy as it is"
    DROPPED = "dropped"


@value
class Step:
    """A rule that matched."""

    chain: str
    rule: Rule


@value
class Explanation:
    """The end of a packet's way, and why; `str()` is a sentence."""

    outcome: Outcome
    port: int | None
    """Where it is redirected or given to."""
    decided_by: Step | None
    """None: no rule matched in the table that would have redirected."""
    mark: int
    zone: int
    """The zone of conntrack; 0 is everybody's."""
    steps: tuple[Step, ...]
    """All rules that matched, in the order of the walk."""

    def __str__(self) -> str:
        """Return the sentence."""
        what = self.outcome.value
        if self.port is not None:
            what = f"{what}{'' if self.outcome is Outcome.REDIRECTED else ','} to port {self.port}"
        if self.decided_by is None:
            return f"{what}: no rule is about it"
        name, chain = self.decided_by.rule.name, self.decided_by.chain
        return f"{what} by the rule {name} of {chain}: {meaning(name)}"


def explain(rules: RuleSet, packet: Packet) -> Explanation:
    """Return what the rules do with a packet; an outbound one is followed over `lo`.

    The kernel decides about NAT once for a connection: rules of nat are asked for its first packet
    only, and those of a later hook no more once an earlier hook's were asked.
    """
    walk = _Walk(rules=rules, mark=packet.mark, connection_mark=packet.connection_mark)
    if packet.direction is Direction.INBOUND:
        walk.through(Hook.PREROUTING, packet)
    else:
        walk.through(Hook.OUTPUT, packet)
        if walk.outcome is Outcome.UNTOUCHED and packet.interface == _LOOPBACK_INTERFACE:
            arriving = replace(packet, uid=None, gid=None)
            walk.through(Hook.PREROUTING, arriving, tracked=True)
    return Explanation(
        outcome=walk.outcome,
        port=walk.port,
        decided_by=walk.decided_by,
        mark=walk.mark,
        zone=walk.zone,
        steps=tuple(walk.steps),
    )


class _Walk:
    """A packet's way through the rules, with what it collects on it."""

    def __init__(self, *, rules: RuleSet, mark: int, connection_mark: int) -> None:
        self.rules = rules
        self.mark = mark
        self.connection_mark = connection_mark
        self.zone = 0
        self.outcome = Outcome.UNTOUCHED
        self.port: int | None = None
        self.decided_by: Step | None = None
        self.steps: list[Step] = []

    def through(self, hook: Hook, packet: Packet, *, tracked: bool = False) -> None:
        """Walk all chains of a hook; a tracked packet has its zone and its NAT already."""
        if isinstance(packet.destination, IPv6Address) and not self.rules.ipv6:
            return
        for chain in self.rules.hooked(hook):
            first = packet.state is ConnectionState.NEW
            if tracked and chain.table is not Table.MANGLE:
                continue
            if chain.table is Table.NAT and not first:
                continue
            if self._ends(chain, hook, packet):
                return

    def _ends(self, base: Chain, hook: Hook, packet: Packet) -> bool:
        """Walk a chain and those it leads to; return whether no later table is asked."""
        ways_back: list[tuple[Chain, int]] = []
        chain, index = base, 0
        while True:
            if index == len(chain.rules):
                if not ways_back:
                    return False
                chain, index = ways_back.pop()
                continue
            rule = chain.rules[index]
            index += 1
            if not self._matches(rule.match, hook, packet):
                continue
            step = Step(chain=chain.name, rule=rule)
            self.steps.append(step)
            verdict = rule.verdict
            match verdict.kind:
                case VerdictKind.GOTO:
                    chain, index = self.rules.chain(verdict.chain), 0
                case VerdictKind.JUMP:
                    ways_back.append((chain, index))
                    chain, index = self.rules.chain(verdict.chain), 0
                case VerdictKind.RETURN if ways_back:
                    chain, index = ways_back.pop()
                case VerdictKind.RETURN | VerdictKind.ACCEPT:
                    self._decide(base, step)
                    return False
                case VerdictKind.DROP:
                    self.outcome, self.decided_by = Outcome.DROPPED, step
                    return True
                case VerdictKind.REDIRECT:
                    self.outcome, self.port, self.decided_by = (
                        Outcome.REDIRECTED,
                        verdict.port,
                        step,
                    )
                    return False
                case VerdictKind.TPROXY:
                    self.mark = verdict.mark
                    self.outcome, self.port, self.decided_by = Outcome.TPROXIED, verdict.port, step
                    return False
                case _:
                    self._note(verdict.kind, verdict.mark, verdict.zone)

    def _decide(self, base: Chain, step: Step) -> None:
        """Keep who decided that a packet is left as it is: a table that would redirect."""
        if self.outcome is Outcome.UNTOUCHED and base.table is not Table.RAW:
            self.decided_by = step

    def _note(self, kind: VerdictKind, mark: int, zone: int) -> None:
        if kind is VerdictKind.SET_MARK:
            self.mark = mark
        elif kind is VerdictKind.SAVE_MARK:
            self.connection_mark = self.mark
        elif kind is VerdictKind.RESTORE_MARK:
            self.mark = self.connection_mark
        elif kind is VerdictKind.SET_ZONE:
            self.zone = self.zone or zone

    def _matches(self, match: Match, hook: Hook, packet: Packet) -> bool:
        into = packet.interface if hook is Hook.PREROUTING else ""
        out = packet.interface if hook is Hook.OUTPUT else ""
        source = packet.source
        return (
            (match.family is None or match.family == packet.destination.version)
            and (match.protocol is None or match.protocol is packet.protocol)
            and _interface_is(match.in_interface, into)
            and _interface_is(match.out_interface, out)
            and (
                not match.source
                or (source is not None and any(source in each for each in match.source))
            )
            and (
                not match.destination
                or any(packet.destination in each for each in match.destination)
            )
            and (match.not_destination is None or packet.destination not in match.not_destination)
            and (not match.ports or packet.destination_port in match.ports)
            and packet.destination_port not in match.not_ports
            and (match.source_port is None or match.source_port == packet.source_port)
            and (not match.uids or packet.uid in match.uids)
            and (not match.gids or packet.gid in match.gids)
            and (match.mark is None or match.mark == self.mark)
            and (match.not_mark is None or match.not_mark != self.mark)
            and (match.connection_mark is None or match.connection_mark == self.connection_mark)
            and (not match.states or packet.state in match.states)
        )


def _interface_is(wanted: str, name: str) -> bool:
    if wanted.endswith("+"):
        return name.startswith(wanted[:-1]) and bool(name)
    return not wanted or wanted == name
