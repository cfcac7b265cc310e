"""Keeps replies for as long as their TTLs allow, and longer when no server answers.

Bounded by bytes; the least recently used reply is dropped first. The time is passed in.
"""

import struct
from collections import OrderedDict
from enum import StrEnum
from typing import NamedTuple

from mesh_dnsproxy.message._answer import opt_record
from mesh_dnsproxy.message._codes import AD, CD, OPT, RD
from mesh_dnsproxy.message._query import HEADER_BYTES, Edns, Query, option_codes
from mesh_dnsproxy.message._reply import Record, lifetime, records

_TTL = struct.Struct("!I")
_OVERHEAD_BYTES = 600
"""The memory of an entry beside its bytes, in Python's objects."""
_COOKIE, _KEEPALIVE, _PADDING = 10, 11, 12
_OF_ONE_HOP = frozenset({_COOKIE, _KEEPALIVE, _PADDING})
"""The options that are between a client and this server only (RFC 7873, RFC 7828, RFC 7830)."""
_QUERY_HEADER = struct.Struct("!6H")
_LARGEST_KEPT = 16 * 1024
_OPT_LENGTH_AT = 9


class CacheConfig(NamedTuple):
    """Which replies are kept, and for how long.

    max_bytes: for all entries; 0 keeps nothing. negative: also replies that there is no such name
    or record. max_ttl_s, max_negative_ttl_s: the largest TTL; a larger one is cut to it.
    serve_stale: an expired reply is used while no server answers (RFC 8767), for stale_for_s, with
    a TTL of stale_ttl_s; the servers are asked again every stale_retry_s. It is also used when
    they take longer than stale_after_s.
    """

    max_bytes: int = 4 * 1024 * 1024
    negative: bool = True
    max_ttl_s: int = 3600
    max_negative_ttl_s: int = 300
    serve_stale: bool = True
    stale_for_s: float = 86400.0
    stale_ttl_s: int = 30
    stale_retry_s: float = 30.0
    stale_after_s: float = 1.8


class State(StrEnum):
    """The state of a reply in the cache."""

    FRESH = "fresh"
    STALE = "stale"
    """expired; to be used only if no server answers"""
    STALE_NOW = "stale_now"
    """expired, and the servers did not answer a moment ago"""


class Found(NamedTuple):
    """A reply with its TTLs counted down, and the id and question of the first client."""

    state: State
    reply: bytes


class _Entry(NamedTuple):
    reply: bytes
    ttls: tuple[tuple[int, int], ...]
    stored_at: float
    expires_at: float
    size: int


class CacheKey(NamedTuple):
    """All that a reply depends on: the question in lower case, RD, AD and CD, EDNS and its DO."""

    question: bytes
    flags: int
    edns: bool
    dnssec_ok: bool


def cache_key(query: Query) -> CacheKey | None:
    """Return a key that is equal for queries with the same reply; None if there can be none."""
    edns = query.edns
    if not query.bare or (edns is not None and not option_codes(edns.options) <= _OF_ONE_HOP):
        return None
    question = query.name + query.question[len(query.name) :]
    dnssec_ok = edns is not None and edns.dnssec_ok
    return CacheKey(question, query.flags & (RD | AD | CD), edns is not None, dnssec_ok)


def upstream_packet(key: CacheKey) -> bytes:
    """Return the query that is sent upstream, with an id of zero: the same for a key, always.

    Its size for replies is ours, so that none is put together from fragments, which can be forged
    (RFC 9715), and nothing that a client may vary makes another question of it.
    """
    edns = Edns(0, 0, key.dnssec_ok, b"") if key.edns else None
    header = _QUERY_HEADER.pack(0, key.flags, 1, 0, 0, key.edns)
    return header + key.question + opt_record(edns, 0)


class ReplyCache:
    """The replies that are kept, by question."""

    def __init__(self, config: CacheConfig) -> None:
        self._config = config
        self._entries: OrderedDict[CacheKey, _Entry] = OrderedDict()
        self._retry_at: dict[CacheKey, float] = {}
        self._bytes = 0

    def __len__(self) -> int:
        return len(self._entries)

    @property
    def size_bytes(self) -> int:
        """The memory of all entries."""
        return self._bytes

    def clear(self) -> None:
        """Drop all replies, as when other servers are asked from now on."""
        self._entries.clear()
        self._retry_at.clear()
        self._bytes = 0

    def get(self, key: CacheKey, now: float) -> Found | None:
        """Return the reply that is kept, also an expired one."""
        entry = self._entries.get(key)
        if entry is None:
            return None
        config = self._config
        if now < entry.expires_at:
            self._entries.move_to_end(key)
            return Found(State.FRESH, _aged(entry, int(now - entry.stored_at)))
        if not config.serve_stale or now >= entry.expires_at + config.stale_for_s:
            self._remove(key)
            return None
        self._entries.move_to_end(key)
        state = State.STALE_NOW if now < self._retry_at.get(key, 0.0) else State.STALE
        return Found(state, _with_ttl(entry, config.stale_ttl_s))

    def put(self, key: CacheKey, reply: bytes, now: float) -> None:
        """Keep a good reply, if its TTLs allow it."""
        config = self._config
        self._retry_at.pop(key, None)
        found = records(reply, HEADER_BYTES + len(key.question))
        ttl_s, negative = lifetime(reply, found)
        if negative and not config.negative:
            ttl_s = None
        if ttl_s is not None:
            ttl_s = min(ttl_s, config.max_negative_ttl_s if negative else config.max_ttl_s)
        if not ttl_s or len(reply) > _LARGEST_KEPT:
            self._remove(key)
            return
        self._remove(key)
        kept = _without_options(reply, found)
        size = len(reply) + len(key.question) + _OVERHEAD_BYTES
        if kept is None or size > config.max_bytes:
            return
        most = config.max_ttl_s
        ttls = tuple((each.ttl_at, min(each.ttl, most)) for each in found if each.kind != OPT)
        self._entries[key] = _Entry(kept, ttls, now, now + ttl_s, size)
        self._bytes += size
        while self._bytes > config.max_bytes:
            self._remove(next(iter(self._entries)))

    def on_no_answer(self, key: CacheKey, now: float) -> None:
        """Use the expired reply at once for a while, as no server answered."""
        if key in self._entries:
            self._retry_at[key] = now + self._config.stale_retry_s

    def _remove(self, key: CacheKey) -> None:
        entry = self._entries.pop(key, None)
        self._retry_at.pop(key, None)
        if entry is not None:
            self._bytes -= entry.size


def _aged(entry: _Entry, age_s: int) -> bytes:
    reply = bytearray(entry.reply)
    for at, ttl in entry.ttls:
        _TTL.pack_into(reply, at, max(0, ttl - age_s))
    return bytes(reply)


def _with_ttl(entry: _Entry, ttl_s: int) -> bytes:
    reply = bytearray(entry.reply)
    for at, _ in entry.ttls:
        _TTL.pack_into(reply, at, ttl_s)
    return bytes(reply)


def _without_options(reply: bytes, found: tuple[Record, ...]) -> bytes | None:
    """Remove the options from the OPT record: a cookie, for example, was for one client only.

    None when it is not the last record, which no server sends.
    """
    for record in found:
        if record.kind == OPT and record.end > record.data:
            if record is not found[-1]:
                return None
            return reply[: record.start + _OPT_LENGTH_AT] + b"\0\0"
    return reply
