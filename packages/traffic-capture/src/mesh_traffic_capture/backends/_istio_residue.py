"""Rules that a tool of Istio's, of any version, has left in iptables, found by their shapes.

Chains are known by their names. Rules in built-in chains that name none of these have shapes of
Istio's own; they are taken for Istio's only where there is a chain of Istio's as well.
"""

from __future__ import annotations

from mesh_traffic_capture.backends._iptables import IptablesRule, IptablesTable

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from typing import Final

_CHAINS: Final = frozenset(
    {
        "ISTIO_INBOUND",
        "ISTIO_REDIRECT",
        "ISTIO_IN_REDIRECT",
        "ISTIO_OUTPUT",
        "ISTIO_OUTPUT_DNS",
        "ISTIO_DIVERT",
        "ISTIO_TPROXY",
        "ISTIO_DROP",
    }
)
_MARK: Final = r"0x[0-9a-f]+(?:/0xffffffff)?"
_CONNMARK_MASKS: Final = r"(?: --nfmask 0xffffffff --ctmask 0xffffffff)?"
_OWNER: Final = r"-m owner --[ug]id-owner \d+"
_SHAPES: Final = {
    ("mangle", "PREROUTING"): (
        rf"-p tcp -m mark --mark {_MARK} -j CONNMARK --save-mark{_CONNMARK_MASKS}",
    ),
    ("mangle", "OUTPUT"): (
        rf"-o lo -p tcp -m mark --mark {_MARK} -j RETURN",
        rf"! -d \S+ -o lo -p tcp {_OWNER} -j MARK --set-xmark 0x53a/0xffffffff",
        rf"-p tcp -m connmark --mark {_MARK} -j CONNMARK --restore-mark{_CONNMARK_MASKS}",
    ),
    ("nat", "OUTPUT"): (
        # Of 1.11, which has a chain of its own only for TCP.
        rf"-p udp -m udp --dport 53 {_OWNER} -j RETURN",
        r"(?:-d \S+ )?-p udp -m udp --dport 53 -j REDIRECT --to-ports 15053",
    ),
    ("raw", "OUTPUT"): (
        rf"-p udp -m udp --dport 53 {_OWNER} -j CT --zone 1",
        rf"-p udp -m udp --sport 15053 {_OWNER} -j CT --zone 2",
        r"(?:-d \S+ )?-p udp -m udp --dport 53 -j CT --zone 2",
    ),
    ("raw", "PREROUTING"): (r"(?:-[ds] \S+ )?-p udp -m udp --sport 53 -j CT --zone 1",),
}
_INTERFACE: Final = r"-(?P<way>[io]) (?P<name>\S+) -j RETURN"
_TPROXY_MARK: Final = r"--tproxy-mark (0x[0-9a-f]+)|--set-x?mark (0x[0-9a-f]+)"

Residue = dict[str, tuple[tuple[str, ...], tuple[IptablesRule, ...]]]


def is_istio_chain(name: str) -> bool:
    """Return whether a chain is one of Istio's."""
    return name in _CHAINS


def istio_rules(tables: Mapping[str, IptablesTable]) -> Residue:
    """Return the chains and the other rules that Istio has left, by table; empty if none."""
    if not any(is_istio_chain(name) for table in tables.values() for name in table.chains):
        return {}
    import re

    residue: Residue = {}
    for name, table in tables.items():
        chains = tuple(chain for chain in table.chains if is_istio_chain(chain))
        loose = tuple(
            rule
            for rule in table.rules
            if not is_istio_chain(rule.chain)
            and not is_istio_chain(rule.target)
            and any(re.fullmatch(shape, rule.specification) for shape in _shapes(name, rule.chain))
        )
        jumps = tuple(
            rule
            for rule in table.rules
            if not is_istio_chain(rule.chain) and is_istio_chain(rule.target)
        )
        loose = (*jumps, *loose, *_of_interfaces(name, table, jumps))
        if chains or loose:
            residue[name] = (chains, loose)
    return residue


def istio_marks(tables: Mapping[str, IptablesTable]) -> frozenset[int]:
    """Return the marks that Istio's TPROXY rules set."""
    found = set()
    for rule in tables.get("mangle", IptablesTable()).rules:
        if rule.chain in {"ISTIO_TPROXY", "ISTIO_DIVERT"}:
            import re

            for match in re.finditer(_TPROXY_MARK, rule.specification):
                found.add(int(match[1] or match[2], 16))
    return frozenset(found)


def _shapes(table: str, chain: str) -> tuple[str, ...]:
    return _SHAPES.get((table, chain), ())


def _of_interfaces(
    name: str, table: IptablesTable, jumps: tuple[IptablesRule, ...]
) -> Iterator[IptablesRule]:
    """Yield the rules that only name an interface: Istio writes them in pairs.

    An excluded interface has one for each way; that of a virtual machine has a jump beside it.
    """
    if name not in {"nat", "mangle"}:
        return
    import re

    ways: dict[str, set[str]] = {}
    found = []
    for rule in table.rules:
        match = re.fullmatch(_INTERFACE, rule.specification)
        expected = {"i": "PREROUTING", "o": "OUTPUT"}
        if match is not None and rule.chain == expected[match["way"]]:
            ways.setdefault(match["name"], set()).add(match["way"])
            found.append((match["name"], rule))
    for interface, rule in found:
        jumped = any(f"-i {interface} " in f"{jump.specification} " for jump in jumps)
        if ways[interface] == {"i", "o"} or (jumped and rule.chain == "PREROUTING"):
            yield rule
