"""Our table of nft, read back into the rules that it was written from, or edited to since."""

from __future__ import annotations

from ipaddress import ip_network

from mesh_traffic_capture.backends._nft import OFF_IPV6, PRIORITIES
from mesh_traffic_capture.rules import (
    Chain,
    ConnectionState,
    Family,
    Hook,
    Match,
    Protocol,
    Rule,
    RuleSet,
    Verdict,
    VerdictKind,
    merge,
)

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any, Final

    from mesh_traffic_capture.backends._nft import NftChain, NftCondition, NftRule, NftTable

_TABLES: Final = {str(priority): table for table, priority in PRIORITIES.items()}
_MARKS: Final = {
    "ct mark set meta mark": VerdictKind.SAVE_MARK,
    "meta mark set ct mark": VerdictKind.RESTORE_MARK,
}


def read_rules(table: NftTable) -> RuleSet:
    """Return the rules of a table; raises ValueError if one has a form that ours don't have."""
    off = any(rule.comment == OFF_IPV6 for chain in table.chains.values() for rule in chain.rules)
    tables = {name: _table(chain) for name, chain in table.chains.items()}
    # A chain without a hook is of the table that leads to it, whatever that is: all are walked.
    anywhere = next(iter(_TABLES.values()))
    return RuleSet(
        chains=tuple(
            Chain(
                name=name,
                table=tables[name] or anywhere,
                hook=Hook(chain.kind.split()[1]) if chain.kind else None,
                rules=tuple(_rules(chain)),
            )
            for name, chain in table.chains.items()
        ),
        ipv6=not off,
        tproxy_mark=table.record.mark if table.record else None,
        tproxy_table=table.record.table if table.record else None,
    )


def _table(chain: NftChain) -> Any:
    if not chain.kind:
        return None
    priority = chain.kind.split()[2]
    if priority not in _TABLES:
        raise ValueError(f"a chain has the priority {priority}")
    return _TABLES[priority]


def _rules(chain: NftChain) -> Iterator[Rule]:
    before = None
    for rule in chain.rules:
        if rule.comment == OFF_IPV6:
            continue
        read = Rule(name=rule.comment, match=_match(rule), verdict=_verdict(rule))
        # The drop behind a TPROXY belongs to it: it is for a packet without a socket at the port.
        drops = read.verdict.kind is VerdictKind.DROP
        if before is None or not (drops and before.verdict.kind is VerdictKind.TPROXY):
            yield read
        before = read


def _match(rule: NftRule) -> Match:
    fields: dict[str, Any] = {}
    for condition in rule.conditions:
        fields.update(_fields(condition))
    return Match(**fields)


def _fields(condition: NftCondition) -> dict[str, Any]:  # noqa: PLR0911 - one for each kind
    values = condition.values
    value = next(iter(values))
    match condition.left:
        case "meta nfproto":
            return {"family": Family.IPV6 if value == "ipv6" else Family.IPV4}
        case "iifname" | "oifname" as left:
            name = f"{value[:-1]}+" if value.endswith("*") else value
            return {"in_interface" if left == "iifname" else "out_interface": name}
        case "meta l4proto":
            return {"protocol": Protocol(value)}
        case "meta skuid":
            return {"uids": frozenset(map(int, values))}
        case "meta skgid":
            return {"gids": frozenset(map(int, values))}
        case "meta mark":
            return {"not_mark" if condition.operator == "!=" else "mark": int(value)}
        case "ct mark":
            return {"connection_mark": int(value)}
        case "ct state":
            return {"states": frozenset(map(ConnectionState, values))}
        case _:
            return _header_fields(condition)


def _header_fields(condition: NftCondition) -> dict[str, Any]:
    header, _, what = condition.left.partition(" ")
    values, negated = condition.values, condition.operator == "!="
    if what in {"saddr", "daddr"}:
        family = {"family": Family.IPV6 if header == "ip6" else Family.IPV4}
        networks = merge(map(ip_network, values))
        if negated:
            return {**family, "not_destination": networks[0]}
        return {**family, "source" if what == "saddr" else "destination": networks}
    if what == "dport":
        ports = frozenset(map(int, values))
        return {"protocol": Protocol(header), "not_ports" if negated else "ports": ports}
    if what == "sport":
        return {"protocol": Protocol(header), "source_port": int(next(iter(values)))}
    raise ValueError(f"a rule asks for {condition.left}")


def _verdict(rule: NftRule) -> Verdict:  # noqa: PLR0911 - one for each kind
    first, *others = rule.statements or ("nothing",)
    word, _, rest = first.partition(" ")
    if first in _MARKS:
        return Verdict(kind=_MARKS[first])
    if not others and first in {"return", "accept", "drop"}:
        return Verdict(kind=VerdictKind(first))
    if word in {"goto", "jump"}:
        return Verdict(kind=VerdictKind(word), chain=rest)
    number = first.rpartition(" ")[2].removeprefix(":")
    if word == "redirect":
        return Verdict(kind=VerdictKind.REDIRECT, port=int(number))
    if word == "tproxy" and others:
        mark = int(others[0].rpartition(" ")[2])
        return Verdict(kind=VerdictKind.TPROXY, port=int(number), mark=mark)
    if first.startswith("meta mark set "):
        return Verdict(kind=VerdictKind.SET_MARK, mark=int(number))
    if first.startswith("ct zone set "):
        return Verdict(kind=VerdictKind.SET_ZONE, zone=int(number))
    raise ValueError(f"a rule does {first}")
