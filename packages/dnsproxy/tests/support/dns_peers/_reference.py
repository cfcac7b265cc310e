"""What a table should be answered with, said in the plainest way: the oracle of the property tests.

Every name that a table has is written out into one dictionary, as the rules of Istio's agent say,
and messages are built by dnspython.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Mapping
from dataclasses import dataclass

import dns.flags
import dns.message
import dns.name
import dns.rdatatype

from mesh_dnsproxy import NameEntry


@dataclass(frozen=True, kw_only=True)
class Expected:
    """An answer without regard to the order of its records. None as records: it is forwarded."""

    cname: str | None
    addresses: frozenset[str]


def _names(host: str, entry: NameEntry, domain: str, namespace: str) -> list[str]:
    if entry.registry != "Kubernetes" or not host.lower().endswith(f".{domain}"):
        return []
    if not entry.short_name or not entry.namespace:
        return []
    short = f"{entry.short_name}.{entry.namespace}".lower()
    names = [short, f"{short}.{domain.split('.', maxsplit=1)[0]}"]
    if entry.namespace.lower() == namespace:
        names.append(entry.short_name.lower())
    return names


def reference_answer(
    entries: Mapping[str, NameEntry],
    name: str,
    kind: str,
    *,
    domain: str,
    namespace: str,
    search: str,
) -> Expected | None:
    """The answer to a question; None: the table has no such name."""
    known: dict[str, tuple[NameEntry, str | None]] = {}
    for host, entry in entries.items():
        known[host.lower()] = entry, None
    for host, entry in entries.items():
        for other in _names(host, entry, domain, namespace):
            known.setdefault(other, (entry, None))
    for host, (entry, _) in list(known.items()):
        if search:
            known.setdefault(f"{host}.{search}", (entry, host))
    asked = name.lower().rstrip(".")
    labels = asked.split(".")
    candidates = [asked, *("*." + ".".join(labels[n:]) for n in range(1, len(labels)))]
    for candidate in candidates:
        if candidate in known:
            entry, target = known[candidate]
            version = 4 if kind == "A" else 6
            addresses = frozenset(
                each for each in entry.addresses if ipaddress.ip_address(each).version == version
            )
            return Expected(cname=target if addresses else None, addresses=addresses)
    return None


def read_answer(wire: bytes) -> Expected:
    """Read an answer of the server's, which must be whole and right in all that is fixed."""
    message = dns.message.from_wire(wire)
    assert message.flags & dns.flags.QR
    assert message.flags & dns.flags.AA
    assert not message.flags & dns.flags.TC
    (question,) = message.question
    cname = None
    owner = question.name
    addresses = set()
    for number, rrset in enumerate(message.answer):
        assert rrset.name == owner, (rrset.name, owner)
        if rrset.rdtype == dns.rdatatype.CNAME:
            assert number == 0
            owner = rrset[0].target
            cname = owner.to_text(omit_final_dot=True).lower()
            continue
        assert rrset.rdtype == question.rdtype
        addresses |= {str(ipaddress.ip_address(each.address)) for each in rrset}
    return Expected(cname=cname, addresses=frozenset(addresses))
