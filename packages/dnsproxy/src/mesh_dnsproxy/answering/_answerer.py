"""Decides on a packet: an answer, a query for an upstream, or no answer. No I/O.

The first query of a kind takes a few microseconds of Python. Its answers, one for each order of the
addresses, are then kept under the bytes of the query (all but the id), so that the next such query
is one lookup. The answers kept are bounded, and dropped with the table that they come from.
"""

import logging
from collections.abc import Callable
from typing import NamedTuple

from mesh_dnsproxy._counts import ByType, Counts, Dropped, Tally
from mesh_dnsproxy.answering._records import address_answers, other_answer
from mesh_dnsproxy.message._answer import (
    MAX_TCP_BYTES,
    bare_failure,
    error_answer,
    refusal_answer,
)
from mesh_dnsproxy.message._codes import AAAA, IN, QR, SERVFAIL, A
from mesh_dnsproxy.message._query import HEADER_BYTES, Query, Refusal, parse_query
from mesh_dnsproxy.table._compiled import CompiledTable

log = logging.getLogger(__name__)

_MOST_KEPT = 8192
Kept = dict[bytes, tuple[Callable[[], bytes], Tally]]


class Forward(NamedTuple):
    """A query for an upstream. known: the table has the name, but no records of this type.

    A and AAAA of a name in the table are never forwarded: without an address the answer is empty.
    """

    query: Query
    limit: int
    known: bool


class Answerer:
    """Answers from one table at a time, which is replaced as a whole."""

    def __init__(
        self,
        counts: Counts,
        *,
        ttl_s: int = 30,
        max_udp_bytes: int = 4096,
        forward_before_table: bool = False,
    ) -> None:
        self._counts = counts
        self._ttl_s = ttl_s
        self._max_udp_bytes = max_udp_bytes
        self._forward_before_table = forward_before_table
        self._table: CompiledTable | None = None
        self.kept: Kept = {}
        """By the bytes of a UDP query after its id: what makes the next answer, and its counter."""

    @property
    def table(self) -> CompiledTable | None:
        """The table in use."""
        return self._table

    def use_table(self, table: CompiledTable) -> Kept:
        """Answer from this table from now on; returns the answers kept of the one before."""
        kept, self.kept = self.kept, {}
        self._table = table
        return kept

    def answer(self, packet: bytes, *, over_tcp: bool) -> bytes | Forward | None:
        """Decide on a packet; never raises."""
        try:
            return self._answer(packet, over_tcp=over_tcp)
        except Exception as error:  # noqa: BLE001 - a client waits for an answer
            return self.failure(packet, error)

    def trial(self, packet: bytes) -> bytes | Forward | None:
        """Decide on a packet as `answer` does, but count nothing and keep no answer."""
        other = Answerer(
            Counts(),
            ttl_s=self._ttl_s,
            max_udp_bytes=self._max_udp_bytes,
            forward_before_table=self._forward_before_table,
        )
        other._table = self._table
        return other.answer(packet, over_tcp=True)

    def failure(self, packet: bytes, error: Exception) -> bytes | None:
        """Return SERVFAIL for a bug of ours, so that the client does not wait in vain."""
        self._counts.internal_errors += 1
        log.error("query failed", extra={"packet": packet[:64].hex()}, exc_info=error)
        if len(packet) < HEADER_BYTES or packet[2] & QR >> 8:
            return None
        return bare_failure(packet, SERVFAIL)

    def _answer(self, packet: bytes, *, over_tcp: bool) -> bytes | Forward | None:
        query = parse_query(packet)
        counts = self._counts
        if query is None:
            counts.dropped[Dropped.NO_QUERY] += 1
            return None
        if isinstance(query, Refusal):
            counts.answered_here += 1
            counts.count_error(query.rcode)
            return refusal_answer(query)
        limit = MAX_TCP_BYTES if over_tcp else query.udp_limit(self._max_udp_bytes)
        if self._table is None:
            return self._before_table(query, limit)
        if query.qtype in (A, AAAA) and query.qclass == IN:
            return self._address(self._table, query, limit, keep=not over_tcp)
        return self._other(self._table, query, limit)

    def _before_table(self, query: Query, limit: int) -> bytes | Forward:
        self._counts.answered_here += 1
        if self._forward_before_table:
            return Forward(query, limit, known=False)
        self._counts.count_error(SERVFAIL)
        return error_answer(query, SERVFAIL)

    def _other(self, table: CompiledTable, query: Query, limit: int) -> bytes | Forward:
        tail = other_answer(table, query, limit, ttl_s=self._ttl_s)
        if tail is not None:
            self._counts.tally(ByType.TABLE_HITS, query.qtype)[0] += 1
            return query.packet[:2] + tail
        self._counts.answered_here += 1
        return Forward(query, limit, known=table.find(query.name) is not None)

    def _address(
        self, table: CompiledTable, query: Query, limit: int, *, keep: bool
    ) -> bytes | Forward:
        hit = table.find(query.name)
        if hit is None:
            self._counts.answered_here += 1
            return Forward(query, limit, known=False)
        tally = self._counts.tally(ByType.TABLE_HITS, query.qtype)
        tally[0] += 1
        answers = address_answers(query, hit, limit, ttl_s=self._ttl_s)
        # Names in a random case (draft-vixie-dnsext-dns0x20) would fill the memory for nothing.
        if keep and query.plain and query.question.startswith(query.name):
            if len(self.kept) >= _MOST_KEPT:
                self.kept = {}
            self.kept[query.packet[2:]] = answers.__next__, tally
        return query.packet[:2] + next(answers)
