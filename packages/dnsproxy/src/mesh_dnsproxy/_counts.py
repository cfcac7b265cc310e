"""The counters, as plain numbers: the hot path adds one to a list's first item."""

from bisect import bisect_left
from enum import StrEnum

from mesh_dnsproxy.message._codes import TYPE_LABELS, type_label

DURATION_BUCKETS_S = (0.001, 0.005, 0.01, 0.1, 1.0, 5.0)
"""The same as Istio's."""


class ByType(StrEnum):
    """The counters with one number for each type of question."""

    TABLE_HITS = "table_hits"
    """answered from the name table"""
    CACHE_HITS = "cache_hits"
    """answered with a reply that an upstream gave before"""
    CACHE_MISSES = "cache_misses"
    """asked upstream"""
    STALE = "stale_answers"
    """answered with an expired reply, as no upstream answered"""
    COALESCED = "coalesced_queries"
    """waited for the answer to the same question of another client"""


class Dropped(StrEnum):
    """Why a packet was not answered, or an answer not sent."""

    NO_QUERY = "no_query"
    """the packet is an answer itself, or too short for a header"""
    TOO_LARGE = "too_large"
    """the packet says that it is longer than any query; only over TCP"""
    NOT_SENT = "not_sent"
    """the kernel, or the client, did not take the answer"""
    FOREIGN_REPLY = "foreign_reply"
    """a reply without a question, a late one, or one to another question"""
    OWN_QUERY = "own_query"
    """a query of ours that came back to us"""


Tally = list[int]


class Counts:
    """All counters, since the start."""

    def __init__(self) -> None:
        self._by_type: dict[ByType, dict[str, Tally]] = {
            kind: {label: [0] for label in TYPE_LABELS} for kind in ByType
        }
        self.dropped = dict.fromkeys(Dropped, 0)
        self.answered_here = 0
        """Queries that were not answered from the table."""
        self.error_answers: dict[int, int] = {}
        """Error answers of this server, not of an upstream, by their code."""
        self.internal_errors = 0
        self.upstream_requests = 0
        self.upstream_failures = 0
        self.gave_way = 0
        """Questions, queries and connections that made room for those of other clients."""
        self.duration_buckets = [0] * (len(DURATION_BUCKETS_S) + 1)
        self.duration_sum_s = 0.0
        self.tcp_connections = 0
        self.tcp_closed_idle = 0

    @property
    def requests(self) -> int:
        """All queries."""
        return self.answered_here + sum(self.by_type(ByType.TABLE_HITS).values())

    def tally(self, kind: ByType, qtype: int) -> Tally:
        """Return the counter of a kind for questions of that type."""
        return self._by_type[kind][type_label(qtype)]

    def by_type(self, kind: ByType) -> dict[str, int]:
        """Return the counts of a kind, by type."""
        return {label: tally[0] for label, tally in self._by_type[kind].items()}

    def count_error(self, rcode: int) -> None:
        """Count an error answer of this server."""
        self.error_answers[rcode] = self.error_answers.get(rcode, 0) + 1

    def count_upstream(self, duration_s: float) -> None:
        """Count a question that an upstream answered."""
        self.duration_buckets[bisect_left(DURATION_BUCKETS_S, duration_s)] += 1
        self.duration_sum_s += duration_s
