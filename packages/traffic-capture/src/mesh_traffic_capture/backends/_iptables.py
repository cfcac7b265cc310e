"""Text for iptables-restore, and what iptables-save prints, read.

All rules are in chains of our own, whose names begin with MESH_; a built-in chain has one rule
more, the first, that jumps. A table is replaced by one COMMIT, which is a transaction.
"""

from __future__ import annotations

from ipaddress import ip_network
from itertools import product

from mesh_traffic_capture._value import field, positional_value
from mesh_traffic_capture.backends._nft import render_nft
from mesh_traffic_capture.backends._record import Record, digest
from mesh_traffic_capture.rules import (
    Family,
    Match,
    Rule,
    RuleSet,
    Table,
    Verdict,
    VerdictKind,
)

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping
    from typing import Final

_PREFIX: Final = "MESH_"
_ABOUT: Final = "MESH_ABOUT"
_MOST_PORTS: Final = 15
"""Of one multiport match."""
_FULL: Final = "0xffffffff"
_QUOTES: Final = frozenset("\"'\\")
_TARGETS: Final = frozenset({"-j", "-g"})


@positional_value
class IptablesRule:
    """A rule as it was read."""

    chain: str
    specification: str
    """The text after the chain, as iptables takes it again."""

    @property
    def words(self) -> tuple[str, ...]:
        """Return the words, without quotes; none if the quotes don't match."""
        try:
            return _split(self.specification)
        except ValueError:
            return ()

    @property
    def target(self) -> str:
        """Return the chain or target that it leads to."""
        words = self.words
        return next((words[at + 1] for at, word in enumerate(words[:-1]) if word in _TARGETS), "")


@positional_value
class IptablesTable:
    """A table as it was read."""

    chains: Mapping[str, str] = field(default_factory=dict)
    """Policies by name; `-` for a chain that a user made."""
    rules: tuple[IptablesRule, ...] = ()


def _split(text: str) -> tuple[str, ...]:
    """Return words without quotes; raises ValueError if the quotes don't match."""
    if not _QUOTES.isdisjoint(text):
        import shlex

        return tuple(shlex.split(text))
    return tuple(text.split())


EMPTY_TABLES: Final[Mapping[str, IptablesTable]] = {}


def parse_save(text: str) -> dict[str, IptablesTable]:
    """Return the tables that iptables-save has printed."""
    tables: dict[str, IptablesTable] = {}
    chains: dict[str, str] = {}
    rules: list[IptablesRule] = []
    name = ""
    for line in text.splitlines():
        if line.startswith("*"):
            chains, rules = {}, []
            name = line[1:].strip()
        elif line.startswith(":"):
            chain, policy, *_ = (*line[1:].split(), "", "")
            chains[chain] = policy
        elif line.startswith("-A "):
            _, chain, *rest = line.split(" ", 2)
            rules.append(IptablesRule(chain, rest[0] if rest else ""))
        elif line.startswith("COMMIT"):
            tables[name] = IptablesTable(chains, tuple(rules))
    return tables


def render_iptables(
    rules: RuleSet,
    family: Family,
    *,
    seen: Mapping[str, IptablesTable] = EMPTY_TABLES,
    also: Mapping[str, tuple[tuple[str, ...], tuple[IptablesRule, ...]]] | None = None,
    added: frozenset[str] = frozenset(),
) -> str:
    """Return the text for `iptables-restore --noflush` that puts rules in the place of ours.

    `seen` is what there is; `also` are chains and rules of others, by table, that are to go in the
    same transactions. The table nat is the last: its record says that all are there.
    """
    record = Record(
        digest=_digest(rules), mark=rules.tproxy_mark, table=rules.tproxy_table, added=added
    )
    texts = []
    for table in Table:
        wanted = _table_lines(rules, family, table)
        if table is Table.NAT:
            wanted[_ABOUT] = [f'-m comment --comment "{record}" -j RETURN']
        texts.append(_table_text(rules, table, wanted, seen, also or {}))
    return "".join(texts)


def render_removal(
    seen: Mapping[str, IptablesTable],
    *,
    also: Mapping[str, tuple[tuple[str, ...], tuple[IptablesRule, ...]]] | None = None,
    keep_records: bool = False,
) -> str:
    """Return the text that removes our chains, and chains and rules of others that are named."""
    if keep_records:
        seen = {
            name: IptablesTable(
                {chain: policy for chain, policy in table.chains.items() if chain != _ABOUT},
                table.rules,
            )
            for name, table in seen.items()
        }
    nothing = RuleSet(chains=(), ipv6=False)
    # What redirects goes first.
    return "".join(_table_text(nothing, table, {}, seen, also or {}) for table in reversed(Table))


def rules_are(rules: RuleSet, family: Family, tables: Mapping[str, IptablesTable]) -> bool:
    """Return whether tables that were read have these rules of ours, and no others of ours."""
    record = own_record(tables)
    if record is None or record.digest != _digest(rules):
        return False
    for table in Table:
        seen = tables.get(table, IptablesTable())
        wanted = _table_lines(rules, family, table)
        own = {name for name in seen.chains if name.startswith(_PREFIX)} - {_ABOUT}
        if own != wanted.keys():
            return False
        for name, lines in wanted.items():
            found = [_normal(rule.words) for rule in seen.rules if rule.chain == name]
            if found != [_normal(_split(line)) for line in lines]:
                return False
        jumps = [rule for rule in seen.rules if rule.target in own and rule.chain not in own]
        if sorted((rule.chain, rule.specification) for rule in jumps) != sorted(
            (built_in, f"-j {chain}") for built_in, chain in _hooked(rules, table)
        ):
            return False
        first: dict[str, IptablesRule] = {}
        for rule in seen.rules:
            first.setdefault(rule.chain, rule)
        if any(first[built_in].target != chain for built_in, chain in _hooked(rules, table)):
            return False
    return True


def render_record_removal() -> str:
    """Return the text that removes the records, when nothing else of ours is there."""
    return f"*{Table.NAT}\n:{_ABOUT} - [0:0]\n-X {_ABOUT}\nCOMMIT\n"


def own_record(tables: Mapping[str, IptablesTable]) -> Record | None:
    """Return what our record says, which is there if all of our tables are."""
    return next(iter(own_records(tables)), None)


def own_records(tables: Mapping[str, IptablesTable]) -> tuple[Record, ...]:
    """Return our records: that of the rules, and those of applies that were cut short."""
    found = []
    for rule in tables.get(Table.NAT, IptablesTable()).rules:
        words = rule.words
        if rule.chain == _ABOUT and "--comment" in words[:-1]:
            record = Record.parse(words[words.index("--comment") + 1])
            if record is not None:
                found.append(record)
    return tuple(found)


def render_intent(record: Record, tables: Mapping[str, IptablesTable]) -> str:
    """Return the text that notes what is about to be changed beside the rules."""
    there = _ABOUT in tables.get(Table.NAT, IptablesTable()).chains
    return "\n".join(
        (
            f"*{Table.NAT}",
            *(() if there else (f":{_ABOUT} - [0:0]",)),
            f'-A {_ABOUT} -m comment --comment "{record}" -j RETURN',
            "COMMIT",
            "",
        )
    )


def has_own(tables: Mapping[str, IptablesTable]) -> bool:
    """Return whether there is a chain of ours."""
    return any(name.startswith(_PREFIX) for table in tables.values() for name in table.chains)


def own_rules(tables: Mapping[str, IptablesTable]) -> Iterator[tuple[str, str]]:
    """Yield the chain and the name of each rule of ours; the chain by its name in a `RuleSet`."""
    for table in tables.values():
        for rule in table.rules:
            words = rule.words
            if rule.chain.startswith(_PREFIX) and "--comment" in words[:-1]:
                chain = rule.chain.removeprefix(_PREFIX).lower().replace("_", "-")
                yield chain, words[words.index("--comment") + 1]


def _digest(rules: RuleSet) -> str:
    return digest(render_nft(rules))


def chain_name(name: str) -> str:
    """Return a chain's name in iptables, where 28 characters are the most."""
    return _PREFIX + name.upper().replace("-", "_")


def _hooked(rules: RuleSet, table: Table) -> list[tuple[str, str]]:
    return [
        (chain.hook.upper(), chain_name(chain.name))
        for chain in rules.table_chains(table)
        if chain.hook is not None
    ]


def _table_lines(rules: RuleSet, family: Family, table: Table) -> dict[str, list[str]]:
    return {
        chain_name(chain.name): [line for rule in chain.rules for line in _lines(rule, family)]
        for chain in rules.table_chains(table)
    }


def _table_text(
    rules: RuleSet,
    table: Table,
    wanted: Mapping[str, list[str]],
    seen: Mapping[str, IptablesTable],
    also: Mapping[str, tuple[tuple[str, ...], tuple[IptablesRule, ...]]],
) -> str:
    there = seen.get(table, IptablesTable())
    others_chains, others_rules = also.get(table, ((), ()))
    own = [name for name in there.chains if name.startswith(_PREFIX)]
    leaving = [name for name in own if name not in wanted] + list(others_chains)
    gone = {*own, *others_chains}
    if not wanted and not gone and not others_rules:
        return ""
    lines = [f"*{table}"]
    # A chain that is there is emptied by this.
    lines += [f":{name} - [0:0]" for name in (*wanted, *leaving)]
    for rule in there.rules:
        if rule.chain not in gone and (rule.target in gone or rule in others_rules):
            lines.append(f"-D {rule.chain} {rule.specification}")
    lines += [f"-A {name} {line}" for name, rows in wanted.items() for line in rows]
    lines += [f"-I {built_in} 1 -j {chain}" for built_in, chain in _hooked(rules, table)]
    lines += [f"-X {name}" for name in leaving]
    return "\n".join((*lines, "COMMIT", ""))


def _lines(rule: Rule, family: Family) -> Iterator[str]:
    match = rule.match
    if match.family is not None and match.family is not family:
        return
    fixed, choices = _options(match)
    target = _target(rule.verdict)
    for chosen in product(*choices):
        words = [*fixed, *chosen, f"-m comment --comment {rule.name}", target]
        # Addresses, interfaces and the protocol are read by iptables whatever their order.
        yield " ".join(words)


def _options(match: Match) -> tuple[list[str], list[list[str]]]:
    """Return the options that each line has, and those of which each line has one."""
    choices = [
        [f"-s {each}" for each in match.source],
        [f"-d {each}" for each in match.destination],
        list(_ports(sorted(match.ports))),
        [f"-m owner --uid-owner {each}" for each in sorted(match.uids)],
        [f"-m owner --gid-owner {each}" for each in sorted(match.gids)],
    ]
    return [*_path_options(match), *_other_options(match)], [each for each in choices if each]


def _path_options(match: Match) -> Iterator[str]:
    if match.protocol is not None:
        yield f"-p {match.protocol}"
    if match.in_interface:
        yield f"-i {match.in_interface}"
    if match.out_interface:
        yield f"-o {match.out_interface}"
    if match.not_destination is not None:
        yield f"! -d {match.not_destination}"


def _other_options(match: Match) -> Iterator[str]:
    if match.not_ports:
        numbers = ",".join(map(str, sorted(match.not_ports)))
        yield f"-m multiport ! --dports {numbers}"
    if match.source_port is not None:
        yield f"-m {match.protocol} --sport {match.source_port}"
    if match.mark is not None:
        yield f"-m mark --mark {match.mark:#x}"
    if match.not_mark is not None:
        yield f"-m mark ! --mark {match.not_mark:#x}"
    if match.connection_mark is not None:
        yield f"-m connmark --mark {match.connection_mark:#x}"
    if match.states:
        yield f"-m conntrack --ctstate {','.join(sorted(match.states)).upper()}"


def _ports(ports: list[int]) -> Iterator[str]:
    for start in range(0, len(ports), _MOST_PORTS):
        numbers = ",".join(map(str, ports[start : start + _MOST_PORTS]))
        yield f"-m multiport --dports {numbers}"


def _target(verdict: Verdict) -> str:  # noqa: PLR0911 - one for each kind
    match verdict.kind:
        case VerdictKind.RETURN | VerdictKind.ACCEPT | VerdictKind.DROP:
            return f"-j {verdict.kind.upper()}"
        case VerdictKind.GOTO:
            return f"-g {chain_name(verdict.chain)}"
        case VerdictKind.JUMP:
            return f"-j {chain_name(verdict.chain)}"
        case VerdictKind.REDIRECT:
            return f"-j REDIRECT --to-ports {verdict.port}"
        case VerdictKind.TPROXY:
            return f"-j TPROXY --on-port {verdict.port} --tproxy-mark {verdict.mark:#x}/{_FULL}"
        case VerdictKind.SET_MARK:
            return f"-j MARK --set-xmark {verdict.mark:#x}/{_FULL}"
        case VerdictKind.SAVE_MARK:
            return "-j CONNMARK --save-mark"
        case VerdictKind.RESTORE_MARK:
            return "-j CONNMARK --restore-mark"
        case VerdictKind.SET_ZONE:
            return f"-j CT --zone {verdict.zone}"


_DEFAULTS: Final = frozenset(
    {
        ("--nfmask", _FULL),
        ("--ctmask", _FULL),
        ("--on-ip", "0.0.0.0"),  # noqa: S104 - "the address of the interface", to TPROXY
        ("--on-ip", "::"),
    }
)
"""Options that iptables-save prints and no rule of ours has."""
_HEXADECIMAL: Final = frozenset("0123456789abcdef")


def _normal(words: Iterable[str]) -> frozenset[tuple[bool, str, str]]:
    """Return the options of a rule in one form: negated or not, name, value."""
    options = set()
    negated = False
    rest = iter(words)
    option = ""
    values: list[str] = []

    def close() -> None:
        if option and option != "-m" and (option, " ".join(values)) not in _DEFAULTS:
            options.add((negated_option, option, _normal_value(option, values)))

    negated_option = False
    for word in rest:
        if word == "!":
            close()
            option, negated = "", True
        elif word.startswith("-") and not word.lstrip("-").isdecimal():
            close()
            option, values, negated_option, negated = word, [], negated, False
        else:
            values.append(word)
    close()
    return frozenset(options)


def _normal_value(option: str, values: list[str]) -> str:
    text = " ".join(values)
    if option in {"-s", "-d"}:
        try:
            return str(ip_network(text, strict=False))
        except ValueError:
            return text
    if option in {"--ctstate", "--dports"}:
        return ",".join(sorted(text.split(",")))
    text = text.removesuffix(f"/{_FULL}")
    digits = text.removeprefix("0x")
    is_number = digits != text and digits and _HEXADECIMAL.issuperset(digits)
    return str(int(digits, 16)) if is_number else text
