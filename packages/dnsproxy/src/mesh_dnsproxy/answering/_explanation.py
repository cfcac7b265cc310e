"""Tells by which rule a query is answered, from the very lookup that answers it."""

from enum import StrEnum
from typing import NamedTuple

from mesh_dnsproxy.answering._answerer import Answerer, Forward
from mesh_dnsproxy.answering._records import underscored
from mesh_dnsproxy.message._codes import HTTPS, IN, PTR, RD, SRV
from mesh_dnsproxy.message._names import to_text, to_wire
from mesh_dnsproxy.message._query import Query, parse_query
from mesh_dnsproxy.table._compiled import CompiledTable
from mesh_dnsproxy.table._packed import unpack


class Rule(StrEnum):
    """The rules by which a query is answered."""

    HOST = "host"
    """the name table has a host of this name"""
    SHORT_NAME = "short_name"
    """the name is short for a host of the table, or another name of it"""
    SEARCH_DOMAIN = "search_domain"
    """the name is one of the table's, followed by the first search domain: a CNAME leads to it"""
    WILDCARD = "wildcard"
    """the name is below a wildcard of the table"""
    ADDRESS = "address"
    """a host of the table has the address that was asked for (PTR)"""
    OTHER_TYPE = "other_type"
    """the table has the name, but nothing of this type: forwarded"""
    NOT_IN_TABLE = "not_in_table"
    """the table does not have the name: forwarded"""
    NO_TABLE = "no_table"
    """there has been no table yet"""
    REFUSED = "refused"
    """the query is of a kind that is answered with an error"""


class Decision(NamedTuple):
    """How a query is decided on, before an upstream is asked.

    host: of the table, as the control plane wrote it. wildcard, alias_of: see `Rule`; None where
    they played no part. outcome: the answer, or what is forwarded.
    """

    rule: Rule
    host: str | None
    registry: str
    namespace: str
    wildcard: str | None
    alias_of: str | None
    outcome: bytes | Forward


def query_packet(name: str, qtype: int) -> bytes:
    """Return a query for a name; raises `BadName`."""
    header = b"\0\0" + RD.to_bytes(2, "big") + b"\0\1" + bytes(6)
    return header + to_wire(name) + qtype.to_bytes(2, "big") + IN.to_bytes(2, "big")


def decide(answerer: Answerer, packet: bytes) -> Decision:
    """Return how a query is answered; nothing is counted."""
    outcome = answerer.trial(packet)
    query = parse_query(packet)
    if outcome is None:
        raise ValueError("the packet is no query")
    if not isinstance(query, Query):
        return _without_host(Rule.REFUSED, outcome)
    table = answerer.table
    if table is None:
        return _without_host(Rule.NO_TABLE, outcome)
    if query.qtype == PTR and isinstance(outcome, bytes):
        return _without_host(Rule.ADDRESS, outcome)
    return _by_name(table, query, outcome)


def _without_host(rule: Rule, outcome: bytes | Forward) -> Decision:
    return Decision(rule, None, "", "", None, None, outcome)


def _by_name(table: CompiledTable, query: Query, outcome: bytes | Forward) -> Decision:
    name = query.name
    if query.qtype in (SRV, HTTPS) and (split := underscored(name)) is not None:
        name = split[1]
    hit = table.find(name)
    if hit is None:
        return _without_host(Rule.NOT_IN_TABLE, outcome)
    host, entry = unpack(hit.entry)
    if isinstance(outcome, Forward):
        rule = Rule.OTHER_TYPE
    elif hit.target is not None:
        rule = Rule.SEARCH_DOMAIN
    elif hit.wildcard is not None:
        rule = Rule.WILDCARD
    elif to_wire(host) == name:
        rule = Rule.HOST
    else:
        rule = Rule.SHORT_NAME
    return Decision(
        rule,
        host,
        entry.registry,
        entry.namespace,
        None if hit.wildcard is None else to_text(hit.wildcard),
        None if hit.target is None else to_text(hit.target),
        outcome,
    )
