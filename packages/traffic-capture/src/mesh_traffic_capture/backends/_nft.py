"""One `inet` table of our own: no rule of others is read or written, and its end leaves nothing.

A rule is a set of conditions and a row of statements, written as text and read from nft's JSON into
the same values: nft prints a rule in another form than it was given.
"""

from __future__ import annotations

from ipaddress import ip_address, ip_network, summarize_address_range

from mesh_traffic_capture._value import field, positional_value, value
from mesh_traffic_capture.backends._record import Record, digest
from mesh_traffic_capture.config import IPNetwork
from mesh_traffic_capture.rules import (
    Chain,
    Family,
    Hook,
    Match,
    Rule,
    RuleSet,
    Table,
    Verdict,
    VerdictKind,
    merge,
)

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping
    from typing import Any, Final

TABLE_NAME: Final = "mesh-traffic-capture"
ISTIO_TABLES: Final[tuple[str, ...]] = ("istio-proxy-nat", "istio-proxy-mangle", "istio-proxy-raw")
_ABOUT: Final = "about"
OFF_IPV6: Final = "ipv6-off"
"""The name of the rules that leave IPv6 alone, in a table for both."""
PRIORITIES: Final = {Table.RAW: -301, Table.MANGLE: -151, Table.NAT: -101}
"""One before the chains of iptables and Istio: others redirect what these rules leave."""


@positional_value
class NftCondition:
    """A question about a packet."""

    left: str
    operator: str
    values: frozenset[str]
    """Networks, numbers or names, each in one form."""

    def __str__(self) -> str:
        values = sorted(self.values, key=_value_order)
        right = values[0] if len(values) == 1 else f"{{ {', '.join(values)} }}"
        if self.left == "ct state":
            right = ",".join(values)
        if self.left in {"iifname", "oifname"}:
            right = f'"{values[0]}"'
        equals = "" if self.operator == "==" else f"{self.operator} "
        return f"{self.left} {equals}{right}"


def _value_order(value: str) -> tuple[int, int, str]:
    if value.isdecimal():
        return (0, int(value), "")
    try:
        network = ip_network(value)
    except ValueError:
        return (2, 0, value)
    return (1, int(network.network_address), value)


@positional_value
class NftRule:
    """A rule, as text for nft and as nft prints it."""

    conditions: frozenset[NftCondition]
    statements: tuple[str, ...]
    comment: str
    written: tuple[NftCondition, ...] = field(default=(), compare=False)

    def __str__(self) -> str:
        words = [str(each) for each in self.written]
        return f'{" ".join((*words, "counter", *self.statements))} comment "{self.comment}"'


@positional_value
class NftChain:
    """A chain."""

    kind: str
    """Type, hook, priority and policy; empty for a chain that is walked by jumps only."""
    rules: tuple[NftRule, ...]


@value
class NftTable:
    """A table as nft lists it, read."""

    record: Record | None
    """The first, which is of the rules that are there."""
    records: tuple[Record, ...] = ()
    """That one, and those of applies that were cut short."""
    chains: Mapping[str, NftChain]
    packets: Mapping[str, int] = field(default_factory=dict, compare=False)
    """How many packets met the rules of a name."""


def render_nft(rules: RuleSet, *, added: frozenset[str] = frozenset(), also: str = "") -> str:
    """Return the text for `nft -f` that replaces our table, in one transaction.

    `also` is more text for the same transaction.
    """
    chains = _chains(rules)
    body = "".join(_chain_text(name, chain) for name, chain in chains.items())
    record = Record(
        digest=digest(body), mark=rules.tproxy_mark, table=rules.tproxy_table, added=added
    )
    about = f'\tchain {_ABOUT} {{\n\t\treturn comment "{record}"\n\t}}\n'
    # Adding what may be there, and deleting it, is how nft says "delete if it exists".
    return (
        f"add table inet {TABLE_NAME}\ndelete table inet {TABLE_NAME}\n{also}"
        f"table inet {TABLE_NAME} {{\n{about}{body}}}\n"
    )


def render_nft_records(records: Iterable[Record]) -> str:
    """Return the text that leaves nothing of our table but the records."""
    lines = "".join(f'\t\treturn comment "{record}"\n' for record in records)
    return (
        f"add table inet {TABLE_NAME}\ndelete table inet {TABLE_NAME}\n"
        f"table inet {TABLE_NAME} {{\n\tchain {_ABOUT} {{\n{lines}\t}}\n}}\n"
    )


def render_nft_intent(record: Record) -> str:
    """Return the text that notes what is about to be changed beside the rules."""
    return (
        f"add table inet {TABLE_NAME}\nadd chain inet {TABLE_NAME} {_ABOUT}\n"
        f'add rule inet {TABLE_NAME} {_ABOUT} return comment "{record}"\n'
    )


def render_nft_removal(tables: Iterable[str]) -> str:
    """Return the text that deletes `inet` tables, which may be gone."""
    return "".join(f"add table inet {each}\ndelete table inet {each}\n" for each in tables)


def table_is(rules: RuleSet, table: NftTable) -> bool:
    """Return whether a table that was read has these rules and no others."""
    chains = _chains(rules)
    body = "".join(_chain_text(name, chain) for name, chain in chains.items())
    return (
        table.record is not None
        and table.record.digest == digest(body)
        and dict(table.chains) == chains
    )


def table_of(rules: RuleSet) -> NftTable:
    """Return the table that nft would list for rules, without a record."""
    return NftTable(record=None, chains=_chains(rules))


def parse_table(text: str) -> NftTable:
    """Return the table that `nft -j list table` has printed; raises ValueError."""
    import json

    kinds: dict[str, str] = {}
    rules: dict[str, list[NftRule]] = {}
    packets: dict[str, int] = {}
    records: list[Record] = []
    for entry in json.loads(text)["nftables"]:
        if "chain" in entry:
            chain = entry["chain"]
            kinds[chain["name"]] = (
                f"{chain['type']} {chain['hook']} {chain['prio']} {chain['policy']}"
                if "hook" in chain
                else ""
            )
        elif "rule" in entry:
            rule = entry["rule"]
            if rule["chain"] == _ABOUT:
                if (record := Record.parse(rule.get("comment", ""))) is not None:
                    records.append(record)
                continue
            read = _read_rule(rule)
            rules.setdefault(rule["chain"], []).append(read)
            packets[read.comment] = packets.get(read.comment, 0) + _packets(rule)
    kinds.pop(_ABOUT, None)
    return NftTable(
        record=records[0] if records else None,
        records=tuple(records),
        chains={name: NftChain(kind, tuple(rules.get(name, ()))) for name, kind in kinds.items()},
        packets=packets,
    )


def _chains(rules: RuleSet) -> dict[str, NftChain]:
    return {
        chain.name: NftChain(_kind(chain), tuple(_rules(chain, ipv6=rules.ipv6)))
        for chain in rules.chains
    }


def _kind(chain: Chain) -> str:
    if chain.hook is None:
        return ""
    # Only chains of the type route look for another route after a mark was set.
    routed = chain.table is Table.MANGLE and chain.hook is Hook.OUTPUT
    kind = "nat" if chain.table is Table.NAT else "route" if routed else "filter"
    return f"{kind} {chain.hook} {PRIORITIES[chain.table]} accept"


def _chain_text(name: str, chain: NftChain) -> str:
    lines = []
    if chain.kind:
        kind, hook, priority, policy = chain.kind.split()
        lines.append(f"type {kind} hook {hook} priority {priority}; policy {policy};")
    lines += [str(rule) for rule in chain.rules]
    return f"\tchain {name} {{\n" + "".join(f"\t\t{line}\n" for line in lines) + "\t}\n"


def _rules(chain: Chain, *, ipv6: bool) -> Iterator[NftRule]:
    if chain.hook is not None and not ipv6:
        # Rules without an address would match IPv6 as well, in a table for both.
        yield _rule((NftCondition("meta nfproto", "==", frozenset({"ipv6"})),), "return", OFF_IPV6)
    for rule in chain.rules:
        yield from _written(rule)


def _rule(conditions: tuple[NftCondition, ...], statements: str, comment: str) -> NftRule:
    return NftRule(frozenset(conditions), tuple(statements.split("; ")), comment, conditions)


def _written(rule: Rule) -> Iterator[NftRule]:
    conditions = tuple(_conditions(rule.match))
    yield _rule(conditions, _statements(rule.verdict, rule.match.family), rule.name)
    if rule.verdict.kind is VerdictKind.TPROXY:
        # Without a socket, nft's rule ends and the next is asked, where iptables' drops: the
        # packet would go to the application, past a proxy that is not there.
        yield _rule(conditions, "drop", rule.name)


def _is(left: str, *values: object, operator: str = "==") -> NftCondition:
    return NftCondition(left, operator, frozenset(str(value) for value in values))


def _conditions(match: Match) -> Iterator[NftCondition]:
    yield from _path_conditions(match)
    yield from _port_conditions(match)
    if match.uids:
        yield _is("meta skuid", *match.uids)
    if match.gids:
        yield _is("meta skgid", *match.gids)
    if match.mark is not None:
        yield _is("meta mark", match.mark)
    if match.not_mark is not None:
        yield _is("meta mark", match.not_mark, operator="!=")
    if match.connection_mark is not None:
        yield _is("ct mark", match.connection_mark)
    if match.states:
        yield _is("ct state", *match.states)


def _path_conditions(match: Match) -> Iterator[NftCondition]:
    ip = "ip6" if match.family is Family.IPV6 else "ip"
    by_address = match.source or match.destination or match.not_destination is not None
    if match.family is not None and not by_address:  # else nft drops it, as it is implied
        yield _is("meta nfproto", "ipv6" if match.family is Family.IPV6 else "ipv4")
    if match.in_interface:
        yield _is("iifname", _wildcard(match.in_interface))
    if match.out_interface:
        yield _is("oifname", _wildcard(match.out_interface))
    if match.source:
        yield _is(f"{ip} saddr", *match.source)
    if match.destination:
        yield _is(f"{ip} daddr", *match.destination)
    if match.not_destination is not None:
        yield _is(f"{ip} daddr", match.not_destination, operator="!=")


def _port_conditions(match: Match) -> Iterator[NftCondition]:
    by_port = match.ports or match.not_ports or match.source_port is not None
    if match.protocol is not None and not by_port:
        yield _is("meta l4proto", match.protocol)
    if match.ports:
        yield _is(f"{match.protocol} dport", *match.ports)
    if match.not_ports:
        yield _is(f"{match.protocol} dport", *match.not_ports, operator="!=")
    if match.source_port is not None:
        yield _is(f"{match.protocol} sport", match.source_port)


def _wildcard(interface: str) -> str:
    return f"{interface[:-1]}*" if interface.endswith("+") else interface


def _statements(verdict: Verdict, family: Family | None) -> str:  # noqa: PLR0911 - one for each kind
    match verdict.kind:
        case VerdictKind.RETURN | VerdictKind.ACCEPT | VerdictKind.DROP:
            return str(verdict.kind)
        case VerdictKind.GOTO | VerdictKind.JUMP:
            return f"{verdict.kind} {verdict.chain}"
        case VerdictKind.REDIRECT:
            return f"redirect to :{verdict.port}"
        case VerdictKind.TPROXY:
            ip = "ip6" if family is Family.IPV6 else "ip"
            return f"tproxy {ip} to :{verdict.port}; meta mark set {verdict.mark}; accept"
        case VerdictKind.SET_MARK:
            return f"meta mark set {verdict.mark}"
        case VerdictKind.SAVE_MARK:
            return "ct mark set meta mark"
        case VerdictKind.RESTORE_MARK:
            return "meta mark set ct mark"
        case VerdictKind.SET_ZONE:
            return f"ct zone set {verdict.zone}"


def _packets(rule: Mapping[str, Any]) -> int:
    return sum(each["counter"]["packets"] for each in rule["expr"] if each.get("counter"))


def _read_rule(rule: Mapping[str, Any]) -> NftRule:
    conditions = []
    statements = []
    for expression in rule["expr"]:
        ((kind, value),) = expression.items()
        if kind == "match":
            conditions.append(_read_condition(value))
        elif kind != "counter":
            statements.append(_read_statement(kind, value))
    return NftRule(frozenset(conditions), tuple(statements), rule.get("comment", ""))


def _read_condition(value: Mapping[str, Any]) -> NftCondition:
    left = _read_key(value["left"])
    operator = "==" if value["op"] == "in" else value["op"]
    right = value["right"]
    if isinstance(right, dict) and "set" in right:
        right = right["set"]
    items = right if isinstance(right, list) else [right]
    if left.endswith("addr"):
        return NftCondition(left, operator, frozenset(map(str, merge(_networks(items)))))
    return NftCondition(left, operator, frozenset(_numbers_or_names(items)))


def _read_key(left: Any) -> str:
    ((kind, value),) = left.items()
    if kind == "payload":
        return f"{value.get('protocol', '?')} {value.get('field', '?')}"
    if kind == "meta" and value["key"] in {"iifname", "oifname"}:
        return str(value["key"])
    return f"{kind} {value['key']}" if kind in {"meta", "ct"} else f"? {left!r}"


def _networks(items: Iterable[Any]) -> Iterator[IPNetwork]:
    for item in items:
        if isinstance(item, str):
            yield ip_network(item)
        elif "prefix" in item:
            yield ip_network(f"{item['prefix']['addr']}/{item['prefix']['len']}")
        else:
            first, last = (ip_address(each) for each in item["range"])
            yield from summarize_address_range(first, last)


def _numbers_or_names(items: Iterable[Any]) -> Iterator[str]:
    for item in items:
        if isinstance(item, dict) and "range" in item:
            first, last = item["range"]
            yield from (str(number) for number in range(int(first), min(int(last), 65535) + 1))
        else:
            yield str(item)


def _read_statement(kind: str, value: Any) -> str:
    if kind in {"return", "accept", "drop"} and value is None:
        return kind
    if kind in {"goto", "jump"}:
        return f"{kind} {value['target']}"
    if kind == "redirect" and value.keys() == {"port"}:
        return f"redirect to :{value['port']}"
    if kind == "tproxy" and value.keys() == {"family", "port"}:
        return f"tproxy {value['family']} to :{value['port']}"
    if kind == "mangle":
        new = value["value"]
        return f"{_read_key(value['key'])} set {_read_key(new) if isinstance(new, dict) else new}"
    return f"? {kind} {value!r}"
